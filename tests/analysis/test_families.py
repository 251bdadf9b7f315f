"""Names of models that tell a family, and names that do not."""

from __future__ import annotations

import pytest

from rcp_irx.analysis.families import alike

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Qwen", "openai:Qwen3.5-397B"),
        ("Qwen3Reranker", "QWEN-3"),
        ("Qwen3-Embedding-8B", "qwen3-32b"),
        ("GPT", "gpt-oss-120b"),
        ("gpt", "ChatGPT"),
        ("T5", "flan-t5-xl"),
        ("Yi", "01-ai/Yi-34B-Chat"),
        ("E5", "e5-mistral-7b-instruct"),
        ("o3", "o3-mini"),
        ("RepLLaMA", "meta-llama/Llama-3.1-8B-Instruct"),
        ("RankZephyr", "zephyr-7b-beta"),
        ("OpenAI", "gpt-4o-mini"),
        ("Anthropic", "claude-sonnet-4"),
        ("Cohere", "command-r-plus"),
        ("mistral", "e5-mistral-7b-instruct"),
    ],
)
def test_names_of_one_family(one: str, other: str) -> None:
    assert alike(one, other)
    assert alike(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("G", "gpt-oss-120b"),
        ("4", "gpt-4"),
        ("7b", "mistral-7b"),
        ("BERT-medium", "mistral-medium"),
        ("flash rerank", "gemini-2.5-flash"),
        ("bge-reranker-v2", "jina-reranker-v2"),
        ("dense", "gpt-4-dense"),
        ("MiniLM-L6", "gpt-4o-mini"),
        ("bm25", "llama3"),
        ("text-embedding", "open-text-judge"),
        ("", "gpt-4"),
        ("GPT", "openai:Qwen3.5-397B"),
    ],
)
def test_names_of_two_families(one: str, other: str) -> None:
    assert not alike(one, other)
    assert not alike(other, one)
