"""LexicalJudge: a stand-in that knows only words; it runs anywhere, at once, and its labels are not worth sharing."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from rcp_irx.documents import Document, Query
from rcp_irx.judging.judges.base import Judge, RubricAnswer, TournamentAnswer
from rcp_irx.judging.rubric import Rubric

_WORD = re.compile(r"\w+")
_STOPWORDS = frozenset(
    "a about am an and are as at be been but by can could did do does for from had has have he her his how i if in into"
    " is it its may me my no not of on or our she should so than that the their them there these they this those to was"
    " we were what when where which while who whom whose why will with would you your".split()
)


class LexicalJudge(Judge):
    """A stand-in judge from term statistics, without any language model.

    It makes pipelines, logs and calibrations run offline. It understands nothing: a passage that repeats the query's
    words passes
    for relevant, an answer in other words does not. Every gain table made with it says so.

    Tournament scores are BM25 over the window it sees, stretched to the range -5 to 5. Criterion c of C is passed by
    a document whose strength reaches c / (C + 1): the share of the query's terms that it holds, weighted by their
    length in letters, a term counting 3/4 at its first occurrence and more with each further one. That looks at each
    document on its own.
    """

    name = "lexical-stand-in/1 (term statistics, no language model)"
    note = "made with a lexical stand-in judge, not with a language model; do not draw conclusions from these gains"

    def tournament(self, query: Query, documents: Sequence[Document]) -> TournamentAnswer:
        """BM25 (k1 = 1.2, b = 0.75) over the window, on a scale where the best possible match is 5 and none is -5."""
        terms = _terms(query.text)
        counts = [Counter(_words(document.text)) for document in documents]
        lengths = [sum(count.values()) for count in counts]
        mean = sum(lengths) / len(lengths) or 1.0
        weights = {term: _idf(sum(term in count for count in counts), len(counts)) for term in terms}
        largest = sum(2.2 * weight for weight in weights.values()) or 1.0
        scores = []
        for count, length in zip(counts, lengths, strict=True):
            norm = 1.2 * (0.25 + 0.75 * length / mean)
            match = sum(w * 2.2 * count[term] / (count[term] + norm) for term, w in weights.items())
            scores.append(10.0 * match / largest - 5.0)
        return TournamentAnswer(scores)

    def rubric(self, query: Query, documents: Sequence[Document], rubric: Rubric) -> RubricAnswer:
        """Criteria passed in rubric order, as far as the document's share of the query's terms reaches."""
        terms = _terms(query.text)
        passes = []
        for document in documents:
            strength = _strength(terms, Counter(_words(document.text)))
            passes.append([strength * (len(rubric) + 1) >= c for c in range(1, len(rubric) + 1)])
        return RubricAnswer(passes)


def _strength(terms: Sequence[str], count: Counter[str]) -> float:
    """How much of the query a document holds, in [0, 1): each term saturates with its repetitions."""
    total = sum(len(term) for term in terms)
    if not total:
        return 0.0
    return sum(len(term) * (1.0 - 0.25 ** count[term]) for term in terms) / total


def _idf(frequency: int, n_documents: int) -> float:
    return math.log(1.0 + (n_documents - frequency + 0.5) / (frequency + 0.5))


def _terms(text: str) -> list[str]:
    """The query's distinct terms; stopwords only where there is nothing else."""
    words = list(dict.fromkeys(_words(text)))
    return [word for word in words if word not in _STOPWORDS] or words


def _words(text: str) -> list[str]:
    """Lower-case words, a plural s taken off."""
    found = (word.lower() for word in _WORD.findall(text))
    return [word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word for word in found]
