"""Renders the prompt templates into chat messages; documents stand in frames that their texts cannot close.

The templates are Jinja2 files: the shipped ones are in `rcp_irx.prompts`, a user's own may take their place. Cutting
texts to a budget is `budget`'s work, reading the answers `responses`'.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from rcp_irx.documents import Document, Query
from rcp_irx.errors import RCPError
from rcp_irx.judging.rubric import Criterion, Rubric
from rcp_irx.judging.tournament import RUBRIC, TOURNAMENT

STAGES = (TOURNAMENT, RUBRIC)
SHARED = "frames.j2"
CODE_LENGTH = 8
TRIAL = "a text to try the prompt with:"


@dataclass(frozen=True)
class Prompts:
    """The templates of both stages, and the frames that they include.

    A template sees `query`, `context` (pairs of a field's name and text), `task` (None: not given), `documents` (texts
    in the order shown), `code` (a word that no text holds) and, for the rubric, `criteria` (`id, name, question`).

    Raises
    ------
    RCPError
        If a template cannot be read, is no Jinja2, or names something else than these.
    """

    tournament: str
    rubric: str
    frames: str

    def __post_init__(self) -> None:
        query, texts = Query("q", f"{TRIAL} query"), [f"{TRIAL} {number}" for number in ("one", "two", "three")]
        rubric = Rubric((Criterion("C1", "name", "question?"),))
        for stage in STAGES:
            shown = self.render(stage, query, [Document(text, text) for text in texts], rubric)
            if query.text not in shown:
                raise RCPError(f"the {stage} prompt shows no query: it must hold `query`")
            if not all(text in shown for text in texts):
                raise RCPError(f"the {stage} prompt does not show every document: it must hold each of `documents`")

    @classmethod
    def load(
        cls, tournament: str | os.PathLike[str] | None = None, rubric: str | os.PathLike[str] | None = None
    ) -> Prompts:
        """The shipped templates, or those in the files given."""
        return cls(_read(tournament, "tournament.j2"), _read(rubric, "rubric.j2"), _read(None, SHARED))

    def source(self, stage: str) -> str:
        """All of a stage's prompt that is the same for every query: its template and the frames."""
        return json.dumps([self.tournament if stage == TOURNAMENT else self.rubric, self.frames])

    def render(self, stage: str, query: Query, documents: Sequence[Document], rubric: Rubric | None = None) -> str:
        """The prompt for one window.

        Raises
        ------
        RCPError
            If the template is no Jinja2, or names something that is not there.
        """
        texts = [document.text for document in documents]
        values: dict[str, Any] = {
            "query": query.text,
            "context": list(query.context),
            "task": query.task,
            "documents": texts,
            "code": _code([query.text, *(text for _, text in query.context), *texts]),
            "criteria": [] if rubric is None else list(rubric.criteria),
        }
        try:
            return _template(getattr(self, stage), self.frames).render(values)
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise RCPError(f"the {stage} prompt cannot be rendered: {error}") from error

    def example(self, stage: str, rubric: Rubric | None = None) -> str:
        """What the template itself says: an answer that repeats it is none."""
        return self.render(stage, Query("q", ""), [], rubric)


@lru_cache(maxsize=64)
def example_of(source: str, rubric: Rubric | None) -> str:
    """What a template says without documents, from its `Prompts.source`, as logs keep it; other prompts as they are."""
    try:
        template, frames = json.loads(source)
    except ValueError:
        return source
    stage = TOURNAMENT if rubric is None else RUBRIC
    return Prompts(**{TOURNAMENT: template, RUBRIC: template, "frames": frames}).example(stage, rubric)


@lru_cache(maxsize=64)
def _template(source: str, frames: str) -> jinja2.Template:
    """A compiled template."""
    environment = jinja2.Environment(  # text for a model, not HTML
        loader=jinja2.DictLoader({"prompt": source, SHARED: frames}),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    return environment.get_template("prompt")


def _code(texts: Sequence[str]) -> str:
    """A word that depends on every text shown and occurs in none of them, so that no text can imitate a frame."""
    seed = json.dumps(list(texts)).encode()
    while True:
        seed = hashlib.sha256(seed).digest()
        code = seed.hex()[:CODE_LENGTH]
        if not any(code in text for text in texts):
            return code


def _read(path: str | os.PathLike[str] | None, shipped: str) -> str:
    source: Any = resources.files("rcp_irx.prompts") / shipped if path is None else Path(path)
    try:
        return str(source.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise RCPError(f"the prompt {source} cannot be read: {error}") from error
