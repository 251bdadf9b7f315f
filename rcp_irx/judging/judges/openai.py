"""OpenAIJudge: asks any OpenAI-compatible server; what it sends, what it makes of a refusal, how it reads an answer.

Prompts are `prompts`', reading a text is `responses`', addresses and keys are `server`'s, waiting is `openai_client`'s;
calls at a window are counted, and what they answer is kept, by the runner and the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rcp_irx.documents import Document, Query
from rcp_irx.errors import RCPError, warn
from rcp_irx.judging.budget import estimate_tokens
from rcp_irx.judging.judges import settings as checked
from rcp_irx.judging.judges.base import Judge, JudgeFailure, RubricAnswer, TournamentAnswer, Usage
from rcp_irx.judging.judges.completion import content_of, is_whole, schema_of, usage_of
from rcp_irx.judging.judges.openai_client import Line, Lines, Waits
from rcp_irx.judging.judges.server import Reply, Server, imported
from rcp_irx.judging.prompts import Prompts
from rcp_irx.judging.responses import read_passes, read_scores
from rcp_irx.judging.rubric import Rubric
from rcp_irx.judging.tournament import RUBRIC, TOURNAMENT

FORMATS = ("json_schema", "json_object", "")
"""What a server is asked to hold its answer to, from the strictest on; "" is plain text."""

LIMITS = ("max_tokens", "max_completion_tokens")
"""The two spellings of the answer's token limit."""

SMALLEST_DOCUMENT = 32
"""A budget of fewer tokens a document shows nothing worth judging."""

TEMPLATE_TOKENS = 32
"""What a chat template puts around a prompt, at most."""

FRAME_TOKENS = 8
"""What a document's frame may take beyond the estimate: its code word differs from window to window."""

BLANKS = 64
"""An answer cut off behind so many blanks would have gone on with blanks."""

_FORMAT = re.compile(r"response[_ ]format|json_schema|json_object|schema|guided|grammar|structured", re.IGNORECASE)
_CONTEXT = re.compile(
    r"context[ _-]?(length|window|size)|maximum context|too long|too many (input )?tokens"
    r"|(exceed|longer than|larger than)\w*\b.{0,80}\b(tokens?|context|length|input)",
    re.IGNORECASE | re.DOTALL,
)
_TOO_LARGE = re.compile(r"too large|at most|maximum|exceed|range|less than|<=|greater than", re.IGNORECASE)
_FLAGGED = re.compile(
    r"content[ _](filter|management|policy)|content_policy|flagged|moderation|data_inspection", re.IGNORECASE
)


class OpenAIJudge(Judge):
    """A language model behind an OpenAI-compatible endpoint: vLLM, SGLang, llama.cpp, a hosted API.

    Parameters
    ----------
    model : str
        The model, as the server calls it.
    base_url : str, optional
        Where the server is, such as "http://localhost:8000/v1"; OPENAI_BASE_URL, or OpenAI itself, where absent. It is
        no part of the judge's name.
    api_key : str, optional
        OPENAI_API_KEY in the environment where absent; a server of one's own may do without. It is in no text, log or
        pickle.
    revision, quantization : str, optional
        What the server does not say of the model; they are part of the name and are not sent.
    temperature, max_tokens, reasoning_effort
        Sent only where they are set. A server that refuses `max_tokens` is sent `max_completion_tokens`. One that
        refuses `temperature` or `reasoning_effort` is asked without; a warning says so, since the name keeps it.
        `max_tokens` is doubled at the second attempt at a window and again at the third.
    context_length : int, optional
        Tokens of the model's context: documents are cut so that prompt and answer fit.
    extra_body : mapping, optional
        More fields of each request, such as {"seed": 1}.
    timeout : float
        Seconds for one request, until the end of its answer.
    prices : (float, float), optional
        Dollars for a million prompt tokens and for a million completion tokens.
    max_concurrency : int
        The most calls in flight.
    prompts : Prompts, optional
        Prompts of one's own.
    patience : float
        Seconds to wait for a server that answers nothing, before the run ends.

    Raises
    ------
    RCPError
        A setting that cannot be, or no API key where one is needed.
    MissingExtra
        If the package openai is not installed.
    """

    paid = True
    reader = "json"

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        revision: str | None = None,
        quantization: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        reasoning_effort: str | None = None,
        context_length: int | None = None,
        extra_body: Mapping[str, Any] | None = None,
        timeout: float = 120.0,
        prices: tuple[float, float] | None = None,
        max_concurrency: int = 32,
        prompts: Prompts | None = None,
        patience: float = 600.0,
    ):
        imported()
        if not isinstance(model, str) or not model.strip():
            raise RCPError(f"model is the name that the server knows, such as 'gpt-oss-120b'; it is {model!r}")
        self.model = model
        self.revision, self.quantization = (
            checked.text("revision", revision),
            checked.text("quantization", quantization),
        )
        self.temperature = None if temperature is None else checked.number("temperature", temperature, 0.0) + 0.0
        self.max_tokens = None if max_tokens is None else checked.whole("max_tokens", max_tokens)
        self.reasoning_effort = checked.text("reasoning_effort", reasoning_effort)
        self.context_length = None if context_length is None else checked.whole("context_length", context_length)
        self.extra_body, digest = checked.body(extra_body)
        self.timeout = checked.number("timeout", timeout, 1e-3)
        self.prices = None if prices is None else checked.prices(prices)
        self.max_concurrency = checked.whole("max_concurrency", max_concurrency)
        self.prompts = prompts or Prompts.load()
        self.waits = Waits(checked.number("patience", patience, 0.0))
        self.server = Server(base_url, api_key)
        settings = {
            "revision": self.revision,
            "quantization": self.quantization,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "reasoning_effort": self.reasoning_effort,
            "extra_body": digest,
        }
        given = ", ".join(f"{name}={value!r}" for name, value in settings.items() if value is not None)
        called = model if re.fullmatch(r"\S+", model) else repr(model)
        self.name = f"{called} ({given})" if given else called
        self._format, self._limit = 0, 0
        self._left_out: set[str] = set()
        self._blank: set[int] = set()
        self._examples: dict[tuple[str, str], str] = {}
        self._lines = Lines(self._line)

    def __repr__(self) -> str:
        return f"OpenAIJudge({self.name!r} at {self.server!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lines"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lines = Lines(self._line)

    def prompt(self, stage: str) -> str:
        """The stage's template."""
        return self.prompts.source(stage)

    async def atournament(self, query: Query, documents: Sequence[Document], *, attempt: int = 0) -> TournamentAnswer:
        """Scores in the order shown; `attempt` counts the calls at this window that failed before.

        Raises
        ------
        JudgeFailure
            If there is no usable answer; JudgeUnavailable if the server cannot be reached.
        RCPError
            If the server refuses requests in a way that ends the run: the message says what to change.
        """
        text, usage = await self._ask(TOURNAMENT, query, documents, None, attempt)
        with _usage_of(usage):
            scores = read_scores(text, len(documents), example=self._example(TOURNAMENT, None))
        return TournamentAnswer(scores, raw=text, usage=usage)

    async def arubric(
        self, query: Query, documents: Sequence[Document], rubric: Rubric, *, attempt: int = 0
    ) -> RubricAnswer:
        """Passes in the order shown; `attempt` and what is raised are as for `atournament`."""
        text, usage = await self._ask(RUBRIC, query, documents, rubric, attempt)
        with _usage_of(usage):
            passes = read_passes(text, len(documents), rubric.ids, example=self._example(RUBRIC, rubric))
        return RubricAnswer(passes, raw=text, usage=usage)

    async def aclose(self) -> None:
        """Close the connections that were opened in the running event loop; a later call opens new ones."""
        await self._lines.aclose()

    def prompt_tokens(
        self, stage: str, query: Query, documents: Sequence[Document], rubric: Rubric | None = None
    ) -> int:
        """About how many tokens a window's prompt has."""
        return estimate_tokens(self.prompts.render(stage, query, documents, rubric))

    def answer_tokens(self, stage: str, n_documents: int, rubric: Rubric | None = None) -> int:
        """About how many tokens a window's answer has, without what a reasoning model thinks before it."""
        each = 8 if stage == TOURNAMENT else 6 + 7 * len(rubric or ())
        return 20 + each * n_documents

    def cost(self, usage: Usage) -> float | None:
        """What a call cost in dollars; None without `prices`."""
        if self.prices is None:
            return None
        return (usage.prompt_tokens * self.prices[0] + usage.completion_tokens * self.prices[1]) / 1e6

    def document_tokens(self, query: Query, rubric: Rubric, size: int) -> int | None:
        """The most tokens of each of `size` documents with which both stages' prompts and answers fit the context.

        The answer takes `max_tokens`, else about what it needs; a model with a `reasoning_effort` and no `max_tokens`
        gets a quarter of the context beside that to think.

        Raises
        ------
        RCPError
            If there are fewer than 32 tokens a document.
        """
        if self.context_length is None:
            return None
        empty = [Document("", "")] * size
        thought = self.context_length // 4 if self.reasoning_effort not in (None, "none") else 0
        taken = TEMPLATE_TOKENS + FRAME_TOKENS * size
        taken += max(
            self.prompt_tokens(stage, query, empty, of)
            + (self.max_tokens or self.answer_tokens(stage, size, of) + thought)
            for stage, of in ((TOURNAMENT, None), (RUBRIC, rubric))
        )
        each = (self.context_length - taken) // size
        if each < SMALLEST_DOCUMENT:
            raise RCPError(
                f"{query}: context_length={self.context_length} leaves {max(0, each)} tokens for each of {size}"
                f" documents ({taken} are taken by the prompt and the answer); raise it, or lower max_tokens or the"
                " window's size"
            )
        return each

    def _line(self) -> Line:
        return Line(self.server, self.waits, self.timeout, self.max_concurrency)

    def _example(self, stage: str, rubric: Rubric | None) -> str:
        key = (stage, rubric.digest if rubric else "")
        if key not in self._examples:
            self._examples[key] = self.prompts.example(stage, rubric)
        return self._examples[key]

    async def _ask(
        self, stage: str, query: Query, documents: Sequence[Document], rubric: Rubric | None, attempt: int
    ) -> tuple[str, Usage]:
        """The text of an answer, from a server that has found out how it wants to be asked."""
        prompt = self.prompts.render(stage, query, documents, rubric)
        prompt = prompt.encode("utf-8", "replace").decode("utf-8")  # half an emoji is no text that can be sent
        schema = schema_of(stage, len(documents), None if rubric is None else tuple(rubric.ids))
        budget = self._budget(prompt, attempt)
        refused: set[str] = set()
        line = await self._lines.here()
        while True:
            asked = _Asked(self._format, self._limit, budget, frozenset(self._left_out))
            reply = await line.post(self._request(prompt, schema, asked))
            if reply.answered:
                return self._read(reply, prompt)
            budget = self._adapt(reply, asked, refused)

    def _budget(self, prompt: str, attempt: int) -> int | None:
        """The answer's token limit: doubled with each attempt within the context, unless the answer ran into blanks."""
        if self.max_tokens is None or not attempt or hash(prompt) in self._blank:
            return self.max_tokens
        larger = self.max_tokens << min(attempt, 2)
        if self.context_length is not None:
            larger = min(larger, self.context_length - TEMPLATE_TOKENS - estimate_tokens(prompt))
        return max(self.max_tokens, larger)

    def _request(self, prompt: str, schema: dict[str, Any], asked: _Asked) -> dict[str, Any]:
        """The body of a request; a setting that is not set is not in it."""
        settings: dict[str, Any] = {
            "temperature": self.temperature,
            "reasoning_effort": self.reasoning_effort,
            LIMITS[asked.limit]: asked.budget,
        }
        kind = FORMATS[asked.format]
        if kind:
            settings["response_format"] = {"type": kind, **({"json_schema": schema} if kind == "json_schema" else {})}
        sent = {name: value for name, value in settings.items() if value is not None and name not in asked.left_out}
        return {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            **sent,
            **self.extra_body,
        }

    def _adapt(self, reply: Reply, asked: _Asked, refused: set[str]) -> int | None:
        """What a refusal says is left out, or put the other way, from now on; the token limit for the next try.

        `refused` are the spellings of the limit that this call has seen refused.

        Raises
        ------
        JudgeFailure
            "refused" where the texts themselves were objected to.
        RCPError
            Where asking in another way does not help.
        """
        message, code, param = reply.refusal()
        said = self.server.scrub(message)
        if reply.status in (400, 403) and _FLAGGED.search(f"{code} {message}"):
            raise JudgeFailure("refused", said)
        if reply.status not in (400, 413, 422, 500):
            raise self._ends_the_run(reply.status, said)
        budget = asked.budget
        larger = self.max_tokens is not None and budget is not None and budget > self.max_tokens
        if reply.status == 413 or _CONTEXT.search(f"{code} {message}"):
            if larger:
                return self.max_tokens
            raise self._too_long(said)
        limit = LIMITS[asked.limit]
        if budget is not None and _names(limit, message, param):
            if larger and _TOO_LARGE.search(message):
                return self.max_tokens
            refused.add(limit)
            if asked.limit == self._limit:
                self._limit = 1 - self._limit
            if LIMITS[self._limit] not in refused:
                return budget
        for name in ("temperature", "reasoning_effort"):
            if getattr(self, name) is not None and name not in asked.left_out and _names(name, message, param):
                self._leave_out(name, said)
                return budget
        if FORMATS[asked.format] and _FORMAT.search(f"{param} {message}"):
            self._format = max(self._format, asked.format + 1)
            return budget
        raise self._ends_the_run(reply.status, said)

    def _leave_out(self, name: str, said: str) -> None:
        if name not in self._left_out:
            self._left_out.add(name)
            warn(
                f"{self.server!r} refuses {name}={getattr(self, name)!r} ({said[:200]}); it is asked without, though"
                f" the judge's name holds the setting: make the judge without {name} for a name that is true"
            )

    def _ends_the_run(self, status: int, said: str) -> RCPError:
        where = f"{self.server!r} refused a request to model {self.model!r} (HTTP {status}: {said[:500]})"
        fixes = {
            401: "set OPENAI_API_KEY or api_key=... to a key that it knows",
            402: "the account has nothing left to spend",
            403: "the key is not allowed to use this model",
            404: "check the model's name, and base_url: most end in /v1",
        }
        return RCPError(f"{where}; {fixes[status]}" if status in fixes else where)

    def _too_long(self, said: str) -> RCPError:
        fix = (
            "set context_length=... to the model's context, and documents are cut to fit"
            if self.context_length is None
            else f"context_length={self.context_length} is too much for it; set a lower one"
        )
        return RCPError(f"{self.server!r}: a prompt is too long for model {self.model!r} ({said[:500]}); {fix}")

    def _read(self, reply: Reply, prompt: str) -> tuple[str, Usage]:
        """The text of an answer, and what it took.

        An answer that reached the token limit is truncated, unless its content is one whole JSON object.
        """
        if reply.is_page:
            raise RCPError(
                f"{self.server!r} answered with a web page, not as an OpenAI-compatible server; check base_url:"
                " most end in /v1"
            )
        choices = reply.body.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(message, dict):
            raise JudgeFailure("transport", self.server.scrub(reply.text[:1000]), usage_of(reply.body, ""))
        ended = str(choice.get("finish_reason") or "")
        usage = usage_of(reply.body, ended)
        content = content_of(message.get("content"))
        text = content if content.strip() else content_of(message.get("reasoning_content") or message.get("reasoning"))
        if message.get("refusal") or ended == "content_filter":
            raise JudgeFailure("refused", str(message.get("refusal") or text), usage)
        if ended == "error":
            raise JudgeFailure("transport", text, usage)
        if ended == "length" and not is_whole(content):
            if len(text) - len(text.rstrip()) >= BLANKS:
                self._blank.add(hash(prompt))
            raise JudgeFailure("truncated", text, usage)
        return text, usage


@dataclass(frozen=True)
class _Asked:
    """How a request was put: the judge may have learned better while it was under way."""

    format: int
    limit: int
    budget: int | None
    left_out: frozenset[str]


@contextmanager
def _usage_of(usage: Usage) -> Iterator[None]:
    """Gives what a call took to the failures of reading its answer."""
    try:
        yield
    except JudgeFailure as failure:
        failure.usage = usage
        raise


def _names(name: str, message: str, param: str) -> bool:
    """Whether a refusal is about a parameter: a server that names one means no other."""
    return name == param.rpartition(".")[2] if param else bool(re.search(rf"\b{name}\b", message))
