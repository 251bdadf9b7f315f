"""Whether the names of two models tell that they are of one family, such as Qwen3-Embedding-8B and qwen3-32b."""

from __future__ import annotations

import re

MAKERS = {
    "alibaba": "qwen",
    "anthropic": "claude",
    "cohere": "command",
    "google": "gemini gemma palm bard",
    "meta": "llama",
    "microsoft": "phi",
    "mistralai": "mistral mixtral ministral magistral",
    "openai": "gpt chatgpt o1 o3 o4 davinci ada",
    "zhipu": "glm",
}
"""Makers of models, and what their models are called."""
MODELS = {model for models in MAKERS.values() for model in models.split()}

COMMON = frozenset(
    """base bert bi chat cross dense distil distilled embed embedding embeddings encoder fast flash in instruct
    instruction it judge large latest lite local max medium micro mini model multilingual nano of open oss passage plus
    preview pro rank ranker rerank reranker retrieval retriever small sparse stand text the tiny turbo ultra v1 v2 v3 v4
    xl xs""".split()
)
"""Words that tell no family."""


def alike(one: str, other: str) -> bool:
    """Whether two names share a word or a part of one (RankZephyr, zephyr), or one is the other's maker."""
    first, second = _words(one), _words(other)
    return any(_same(a, b) for a in first for b in second)


def _words(name: str) -> set[str]:
    """The words of a name and, without numbers, their beginnings; where it names a maker and no model, its models'."""
    found = set(re.findall("[a-z0-9]+", name.lower()))
    found |= set(re.findall("(?<![a-z0-9])[a-z]{3,}", name.lower()))
    if found.isdisjoint(MODELS):
        found |= {model for maker in found & MAKERS.keys() for model in MAKERS[maker].split()}
    return {word for word in found - COMMON if len(word) > 1 and not re.fullmatch("[0-9]+[a-z]?", word)}


def _same(one: str, other: str) -> bool:
    """Whether two words are one, or one of three letters or more begins or ends the other."""
    short, long = sorted((one, other), key=len)
    joined = len(short) > 2 and short.isalpha() and (long.startswith(short) or long.endswith(short))
    return one == other or joined
