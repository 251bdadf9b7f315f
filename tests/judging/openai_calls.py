"""Calls to an OpenAIJudge, for its tests."""

from __future__ import annotations

import asyncio
import json

import pytest

from rcp_irx import (
    Criterion,
    Document,
    JudgeFailure,
    OpenAIJudge,
    Query,
    Rubric,
)
from rcp_irx.judging.judges.openai_client import Waits
from tests.judging.stub_server import (
    score,
)

KEY = "sk-secret-0123456789"
QUERY = Query("q", "why is the sky blue")
DOCUMENTS = [Document(f"d{i}", f"text number {i}") for i in range(4)]
SCORES = [score(document.text) for document in DOCUMENTS]
RUBRIC_OF_TWO = Rubric((Criterion("C1", "one", "Is it?"), Criterion("C2", "two", "Is it indeed?")))
FOUR = json.dumps({"scores": {"1": 1.0, "2": 2.0, "3": 3.0, "4": 4.0}})


def judge_of(server, *, first=0.01, longest=60.0, patience=5.0, **options):
    """A judge of the server that waits a hundredth of the usual time."""
    judge = OpenAIJudge("m", base_url=server if isinstance(server, str) else server.base_url, **options)
    judge.waits = Waits(patience, first, longest)
    return judge


async def many(judge, n, *, gather_errors=False, documents=DOCUMENTS):
    """Calls at once, each about another query."""
    calls = (judge.atournament(Query("q", f"query {i}"), documents) for i in range(n))
    try:
        return await asyncio.gather(*calls, return_exceptions=gather_errors)
    finally:
        await judge.aclose()


def ask(judge, **options):
    async def once():
        try:
            return await judge.atournament(QUERY, DOCUMENTS, **options)
        finally:
            await judge.aclose()

    return asyncio.run(once())


def ask_rubric(judge, rubric=RUBRIC_OF_TWO):
    async def once():
        try:
            return await judge.arubric(QUERY, DOCUMENTS, rubric)
        finally:
            await judge.aclose()

    return asyncio.run(once())


def failure(judge, **options):
    with pytest.raises(JudgeFailure) as caught:
        ask(judge, **options)
    return caught.value
