"""The bundled demo collection: its shape, its labels, and that matching words alone does not solve it."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict

import pytest
from scipy.stats import kendalltau

from rcp_irx import demo
from rcp_irx.demo import results


def words(text: str) -> list[str]:
    """Lower-case words without plural s: close to what an index of stems matches."""
    return [word.removesuffix("s") for word in re.findall(r"[a-z]+", text.lower())]


def overlaps() -> dict[str, list[tuple[float, int]]]:
    """For each topic its labelled passages as (summed idf of the query words in the passage, label)."""
    bags = {docno: set(words(text)) for docno, text in demo.documents()}
    frequency = Counter(word for bag in bags.values() for word in bag)
    queries = dict(demo.topics())
    pairs: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for qid, docno, label in demo.qrels():
        matched = set(words(queries[qid])) & bags[docno]
        pairs[qid].append((sum(math.log(len(bags) / frequency[word]) for word in matched), label))
    return pairs


def test_the_collection_has_ten_topics_and_165_passages():
    assert len(demo.topics()) == 10
    assert len(demo.documents()) == 165
    assert len(demo.qrels()) == 165


def test_ids_and_texts_are_unique():
    docnos, texts = zip(*demo.documents(), strict=True)
    qids, queries = zip(*demo.topics(), strict=True)
    for values in (docnos, texts, qids, queries):
        assert len(set(values)) == len(values)
    assert list(docnos) == [f"d{number:03d}" for number in range(1, 166)]
    assert list(qids) == [str(number) for number in range(1, 11)]


def test_each_passage_is_labelled_for_the_one_topic_it_was_written_for():
    labelled = Counter(docno for _, docno, _ in demo.qrels())
    assert labelled == Counter(docno for docno, _ in demo.documents())
    assert {qid for qid, _, _ in demo.qrels()} == {qid for qid, _ in demo.topics()}


@pytest.mark.parametrize("qid", [str(number) for number in range(1, 11)])
def test_each_topic_has_at_least_16_passages_and_two_of_each_label(qid):
    labels = Counter(label for topic, _, label in demo.qrels() if topic == qid)
    assert labels.total() >= 16
    assert set(labels) == set(demo.LABELS) == {0, 1, 2, 3}
    assert min(labels.values()) >= 2


def test_passages_have_40_to_80_words_of_clean_prose():
    for docno, text in demo.documents():
        assert 40 <= len(text.split()) <= 80, docno
        assert text.isascii(), docno
        assert text.isprintable(), docno
        assert text == " ".join(text.split()), docno
        assert text[0].isupper(), docno
        assert text.endswith("."), docno


def test_queries_are_one_clean_ascii_line():
    for _, query in demo.topics():
        assert query.isascii()
        assert query.isprintable()
        assert query == query.strip().lower()


def test_no_two_passages_begin_with_the_same_three_words():
    openings = Counter(tuple(text.split()[:3]) for _, text in demo.documents())
    assert openings.most_common(1)[0][1] == 1


def test_ids_carry_no_information_about_the_label():
    numbers, labels = zip(*((int(docno[1:]), label) for _, docno, label in demo.qrels()), strict=True)
    assert abs(kendalltau(numbers, labels).statistic) < 0.1


def test_word_overlap_follows_the_labels_but_only_loosely():
    within = [kendalltau(*zip(*pairs, strict=True)).statistic for pairs in overlaps().values()]
    assert 0.2 < sum(within) / len(within) < 0.6


def test_every_topic_has_an_answer_that_shares_fewer_query_words_than_a_useless_passage():
    for pairs in overlaps().values():
        worst_answer = min(overlap for overlap, label in pairs if label == 3)
        best_trap = max(overlap for overlap, label in pairs if label <= 1)
        assert worst_answer < best_trap


def test_every_topic_has_an_off_topic_passage_that_shares_more_query_words_than_a_partial_answer():
    for pairs in overlaps().values():
        worst_partial = min(overlap for overlap, label in pairs if label == 2)
        best_off_topic = max(overlap for overlap, label in pairs if label == 0)
        assert worst_partial < best_off_topic


def test_toy_runs_and_gains_are_the_same_every_time_and_fit_together():
    runs, gains = results.runs(), results.gains()
    assert set(runs) == {"rare words", "trigrams", "longest"}
    for run in runs.values():
        assert run.groupby("qid").size().tolist() == [50] * 10
    assert gains == results.gains()
    assert gains.documents.groupby("qid").size().tolist() == [30] * 10
    assert "stand-in" in gains.metadata["note"]
    means = {
        name: float((gains.RCPnDCG @ 10).calc_aggregate(_ir(gains.qrels()), _ir(run))) for name, run in runs.items()
    }
    assert means["longest"] < 0.3 < means["trigrams"]


def _ir(frame):
    return frame.rename(columns={"qid": "query_id", "docno": "doc_id", "label": "relevance"})
