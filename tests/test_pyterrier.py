"""The PyTerrier transformers: rows in, rows out; batches; what they refuse; artifacts."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

pt = pytest.importorskip("pyterrier", reason="PyTerrier is not installed")

from ir_measures import AP, P, nDCG  # noqa: E402

from rcp_irx import (  # noqa: E402
    FULL,
    GainTable,
    JudgeFailure,
    LexicalJudge,
    RCPError,
    RCPJudge,
    RCPnDCG,
    RCPWarning,
    RRFPool,
    Rubric,
)
from rcp_irx.evaluation import ndcg  # noqa: E402

WORDS = "iron rust garden tool oil water dry paint blade handle winter shed wood stone sand brush".split()


def candidates(queries=3, documents=14):
    generator = np.random.default_rng(3)
    rows = [
        (f"q{j}", "rust on garden tool blade", f"d{i}", " ".join(generator.choice(WORDS, 12)), float(documents - i), i)
        for j in range(queries)
        for i in range(documents)
    ]
    return pd.DataFrame(rows, columns=["qid", "query", "docno", "text", "score", "rank"])


class TestRCPJudgeTransformer(pt.testing.TransformerTestCase):
    @staticmethod
    def get_transformer():
        return RCPJudge(LexicalJudge())

    test_schematic = None  # it reads the web


class TestRRFPoolTransformer(pt.testing.TransformerTestCase):
    @staticmethod
    def get_transformer():
        return RRFPool([pt.Transformer.from_df(candidates()), pt.Transformer.from_df(candidates())])

    test_schematic = None  # it reads the web


def test_every_row_and_column_comes_back_with_both_stages():
    inp = candidates().assign(note="n", dataset="")
    out = RCPJudge(LexicalJudge())(inp)
    assert set(out.columns) == {*inp.columns, "bt", "n", "C1", "C2", "C3", "C4", "C5"}
    keys = ["qid", "docno", "text", "note"]
    pd.testing.assert_frame_equal(
        out[keys].sort_values(keys, ignore_index=True),
        inp[keys].sort_values(keys, ignore_index=True),
        check_dtype=False,
    )
    assert out["score"].tolist() == out["bt"].tolist()
    assert out.groupby("qid")["bt"].mean().abs().max() < 1e-12
    for _, rows in out.groupby("qid"):
        assert rows["rank"].tolist() == list(range(14))
        assert rows["score"].is_monotonic_decreasing
        assert (rows[["C1", "C2", "C3", "C4", "C5"]].to_numpy() <= rows[["n"]].to_numpy()).all()
        assert rows["n"].sum() == 10 * FULL.counts(14).rubric


def test_batches_of_any_size_and_any_order_of_rows_give_the_same_rows_and_gains():
    inp = candidates()
    whole, parts, shuffled = RCPJudge(LexicalJudge()), RCPJudge(LexicalJudge()), RCPJudge(LexicalJudge())
    out = whole(inp)
    batches = pd.concat([parts(rows) for _, rows in inp.groupby("qid")], ignore_index=True)
    pd.testing.assert_frame_equal(out, batches)
    mixed = shuffled(inp.sample(frac=1, random_state=0)).sort_values(["qid", "rank"], ignore_index=True)
    pd.testing.assert_frame_equal(out, mixed)
    assert whole.log.calibrate() == parts.log.calibrate() == shuffled.log.calibrate()


def test_an_empty_frame_comes_back_with_the_columns():
    out = RCPJudge(LexicalJudge())(candidates().iloc[:0])
    assert out.empty
    assert {"bt", "n", "C1", "score", "rank"} <= set(out.columns)
    assert RRFPool([pt.Transformer.from_df(candidates())])(pd.DataFrame(columns=["qid", "query"])).empty


def test_an_iterator_of_rows_is_judged_too():
    rows = RCPJudge(LexicalJudge())(candidates(1).to_dict("records"))
    assert {"bt", "C5"} <= set(rows[0])


def test_odd_ids_survive_judging_saving_and_evaluation(tmp_path):
    ids = ["007", "1e3", "True", "NA", "null", "a#b", "a/b:c", '"q"', "a b", "x" * 300, "é漢🙂"]
    inp = candidates(1, len(ids)).assign(docno=ids, qid="NA")
    judge = RCPJudge(LexicalJudge(), tmp_path / "odd.judgments")
    out = judge(inp)
    assert set(out["docno"]) == set(ids)
    judge.log.calibrate().save(tmp_path / "g")
    gains = GainTable.load(tmp_path / "g")
    assert set(gains.documents["docno"]) == set(ids)
    assert ndcg(out, gains).tolist() == [1.0]


def test_ids_that_are_numbers_become_text():
    inp = candidates(1).assign(qid=19335, docno=range(14))
    out = RCPJudge(LexicalJudge())(inp)
    assert set(out["qid"]) == {"19335"}
    assert set(out["docno"]) == {str(i) for i in range(14)}


def test_a_document_twice_is_judged_once_and_comes_back_once():
    inp = candidates(1)
    with pytest.warns(RCPWarning, match="in the pool twice"):
        out = RCPJudge(LexicalJudge())(pd.concat([inp, inp.iloc[:1]]))
    assert len(out) == 14


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d: d.assign(text=None),
            "query 'q0': document 'd0', 'd1', 'd10' and 11 more has no text in column 'text'",
        ),
        (lambda d: d.assign(docno=["d0"] * 14), "query 'q0': document 'd0' has two different texts"),
        (lambda d: d.assign(query=None), "query 'q0' has no text in column 'query'"),
        (lambda d: d.assign(docno=[None, *d["docno"][1:]]), "column 'docno' of the pool has no id"),
        (lambda d: d.assign(bt=1.0), "already has the column 'bt'"),
    ],
)
def test_bad_input_is_named(change, message):
    with pytest.raises(RCPError, match=message):
        RCPJudge(LexicalJudge())(change(candidates(1)))


def test_missing_columns_are_pyterriers_own_validation_error():
    with pytest.raises(pt.validate.InputValidationError, match="text"):
        RCPJudge(LexicalJudge())(candidates().drop(columns="text"))


def test_only_the_first_row_of_a_query_needs_its_text():
    inp = candidates(1)
    inp.loc[1:, "query"] = None
    pd.testing.assert_frame_equal(
        RCPJudge(LexicalJudge())(inp).drop(columns="query"),
        RCPJudge(LexicalJudge())(candidates(1)).drop(columns="query"),
    )


def test_a_judge_that_costs_money_needs_a_log_and_every_judge_a_name(tmp_path):
    judge = LexicalJudge()
    judge.paid = True
    for log in (None, ":memory:"):
        with pytest.raises(RCPError, match="costs money: give log="):
            RCPJudge(judge, log)
    with pytest.raises(RCPError, match="the judgment log's path is empty"):
        RCPJudge(judge, "")
    RCPJudge(judge, tmp_path / "paid.judgments")
    judge.name = ""
    with pytest.raises(RCPError, match="has no name"):
        RCPJudge(judge, tmp_path / "paid.judgments")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"judge": LexicalJudge}, "judge must be a Judge"),
        ({"judge": "gpt"}, "judge must be a Judge"),
        ({"judge": LexicalJudge(), "protocol": "REDUCED"}, "protocol must be FULL, REDUCED"),
        ({"judge": LexicalJudge(), "rubric": "mine.toml"}, r"rubric must be a Rubric, such as Rubric\.load"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named_at_once(arguments, message):
    with pytest.raises(RCPError, match=message):
        RCPJudge(**arguments)


def test_documents_that_no_valid_window_holds_rank_last_with_a_warning():
    class Blind(LexicalJudge):
        def tournament(self, query, documents):
            if any(document.id == "d3" for document in documents):
                raise JudgeFailure("refused")
            return super().tournament(query, documents)

    with pytest.warns(RCPWarning) as seen:
        out = RCPJudge(Blind())(candidates(1, 30))
    texts = [str(w.message) for w in seen]
    assert any("no valid tournament window holds" in text and "'d3'" in text for text in texts)
    assert any("windows failed; see log.failures()" in text for text in texts)
    unseen = out["bt"].isna()
    assert "d3" in set(out["docno"][unseen])
    assert out["rank"][unseen].min() > out["rank"][~unseen].max()
    assert out["score"].notna().all()
    assert out["score"].is_monotonic_decreasing


def test_a_second_run_asks_nothing_and_gives_the_same(tmp_path):
    first = RCPJudge(LexicalJudge(), tmp_path / "a.judgments")
    out = first(candidates())
    calls = first.log.usage()["calls"].sum()
    second = RCPJudge(LexicalJudge(), str(tmp_path / "a.judgments"))
    pd.testing.assert_frame_equal(second(candidates()), out)
    assert second.log.usage()["calls"].sum() == calls


def test_a_pipeline_with_a_pool_keeps_why_a_document_is_there_in_the_gains():
    qrels = pd.DataFrame({"qid": ["q0", "q0", "q1"], "docno": ["d13", "d2", "d12"], "label": [2, 1, 1]})
    topics = candidates()[["qid", "query"]].drop_duplicates().assign(topic_note="kept")
    one = pt.Transformer.from_df(candidates()[["qid", "docno", "score", "rank"]])
    texts = candidates()[["qid", "docno", "text"]]
    pool = RRFPool([one % 8, one % 6], num_results=6, qrels=qrels, add="positives")(topics)
    assert pool.groupby("qid").size().tolist() == [6, 6, 6]
    assert pool["topic_note"].eq("kept").all()
    found = pool.set_index(["qid", "docno"])
    assert found.loc[("q0", "d13"), "origin"] == "positive"
    assert found.loc[("q0", "d2"), "origin"] == "fused"
    assert np.isnan(found.loc[("q0", "d13"), "source_rank_1"])
    assert found.loc[("q0", "d0"), ["source_rank_1", "source_rank_2", "pool_rank"]].tolist() == [1, 1, 0]
    judge = RCPJudge(LexicalJudge())
    judge(pool.merge(texts, on=["qid", "docno"]))
    documents = judge.log.calibrate().documents.set_index(["qid", "docno"])
    assert documents.loc[("q0", "d13"), ["origin", "pool_rank"]].tolist() == ["positive", 5]
    assert documents.loc[("q0", "d0"), "source_rank_1"] == 1
    joined = RRFPool([one], num_results=2, qrels=qrels, add="judged")(topics.head(1))
    assert joined[["docno", "origin"]].values.tolist() == [
        ["d0", "fused"],
        ["d1", "fused"],
        ["d13", "judged"],
        ["d2", "judged"],
    ]


def test_pool_ranks_use_scores_where_a_retriever_gives_no_rank():
    frame = candidates(1)[["qid", "docno", "score"]].sample(frac=1, random_state=1)

    class Unranked(pt.Transformer):
        def transform(self, inp):
            return frame

    pool = RRFPool([Unranked()], num_results=3)(candidates(1)[["qid", "query"]].head(1))
    assert pool["docno"].tolist() == ["d0", "d1", "d2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"add": "everything"}, "add is None, 'positives' or 'judged', not 'everything'"),
        ({"add": "judged"}, "add='judged' needs qrels="),
        ({"add": "judged", "qrels": pd.DataFrame({"qid": "q", "docno": "d", "label": [0.5]})}, "whole numbers"),
        ({"num_results": 0}, "num_results is a whole number from 1 up"),
        ({"add": "judged", "qrels": pd.DataFrame({"qid": ["q"], "docno": ["d"]})}, "the qrels has no column 'label'"),
    ],
)
def test_a_pool_refuses_what_cannot_be_meant(options, message):
    with pytest.raises(RCPError, match=message):
        RRFPool([pt.Transformer.from_df(candidates())], **options)


def test_topics_that_name_a_query_twice_are_refused():
    topics = pd.DataFrame({"qid": ["1", "1"], "query": ["cat", "dog"], "dataset": ["a", "b"]})
    with pytest.raises(RCPError, match="query '1' is in the topics twice; pool one dataset at a time"):
        RRFPool([pt.Transformer.from_df(candidates())])(topics)
    with pytest.raises(
        RCPError, match=r"retrievers are PyTerrier transformers, not DataFrame; pt\.Transformer\.from_df"
    ):
        RRFPool([candidates()])


def test_a_run_that_stops_between_queries_is_seen_to_be_unfinished():
    class Stops(LexicalJudge):
        def tournament(self, query, documents):
            if query.id == "q1":
                raise KeyboardInterrupt
            return super().tournament(query, documents)

    judge = RCPJudge(Stops())
    with pytest.raises(KeyboardInterrupt):
        judge(candidates())
    with pytest.raises(RCPError, match=r"2 queries are not judged to the end: \('', 'q1'\), \('', 'q2'\)"):
        judge.log.calibrate()


def test_a_refusal_comes_before_any_call():
    judge = RCPJudge(LexicalJudge())
    judge(candidates())
    calls = judge.log.usage()["calls"].sum()
    grown = pd.concat([candidates(), candidates(1, 1).assign(docno="new")], ignore_index=True)
    grown.loc[grown["qid"] == "q2", "text"] += " more"
    with pytest.raises(RCPError, match=r"query 'q2': document .* was judged with another text .*nothing was asked"):
        judge(grown)
    assert judge.log.usage()["calls"].sum() == calls
    assert len(judge.log.calibrate()) == 42


def test_frames_with_an_index_named_like_a_column_are_read():
    inp = candidates(1)
    odd = inp.set_index(["qid", "docno"], drop=False)
    pd.testing.assert_frame_equal(RCPJudge(LexicalJudge())(odd), RCPJudge(LexicalJudge())(inp))


def test_without_ranks_the_pool_follows_the_scores_in_any_order_of_rows():
    inp = candidates(1).drop(columns="rank")
    one, two = RCPJudge(LexicalJudge()), RCPJudge(LexicalJudge())
    one(inp)
    two(inp.sample(frac=1, random_state=2))
    assert one.log.calibrate() == two.log.calibrate()


def test_a_transformer_with_a_log_on_disk_copies_and_one_in_memory_refuses(tmp_path):
    judge = RCPJudge(LexicalJudge(), tmp_path / "a.judgments")
    judge(candidates(1))
    copied = pickle.loads(pickle.dumps(judge))
    assert copied.log.usage().equals(judge.log.usage())
    with pytest.raises(RCPError, match="in memory cannot be copied"):
        pickle.dumps(RCPJudge(LexicalJudge()))


def test_a_query_without_candidates_is_warned_about():
    topics = pd.DataFrame({"qid": ["q0", "q9"], "query": ["x", "y"]})
    with pytest.warns(RCPWarning, match="no candidate was found for query 'q9'"):
        pool = RRFPool([pt.Transformer.from_df(candidates(1))])(topics)
    assert set(pool["qid"]) == {"q0"}


def test_gains_open_as_an_artifact(tmp_path):
    judge = RCPJudge(LexicalJudge())
    judge(candidates())
    gains = judge.log.calibrate()
    gains.save(tmp_path / "g")
    artifact = pt.Artifact.load(str(tmp_path / "g"))
    assert type(artifact).__name__ == "GainArtifact"
    assert artifact.table == gains
    pd.testing.assert_frame_equal(artifact.qrels(), gains.qrels())
    assert str(artifact.RCPnDCG @ 10) == f"RCPnDCG(gains='{gains.fit_id}')@10"


def test_an_experiment_beside_the_measures_people_know():
    judge = RCPJudge(LexicalJudge())
    inp = candidates()
    judge(inp)
    gains = judge.log.calibrate()
    labels = pd.DataFrame({"qid": ["q0", "q1", "q2"], "docno": ["d1", "d2", "d3"], "label": 1})
    topics = inp[["qid", "query"]].drop_duplicates()
    bound = gains.RCPnDCG @ 10
    with warnings.catch_warnings():
        warnings.simplefilter("error", RCPWarning)
        table = pt.Experiment(
            [inp, pt.Transformer.from_df(inp) >> judge],
            topics,
            gains.qrels(labels),
            eval_metrics=[nDCG @ 10, AP, P @ 5, RCPnDCG @ 10, bound],
            names=["first", "judge"],
        ).set_index("name")
    assert table.loc["judge", "RCPnDCG@10"] == pytest.approx(1.0, abs=1e-12)  # the judge's own order is the ideal
    assert table.loc["first", "RCPnDCG@10"] == table.loc["first", str(bound)] == ndcg(inp, gains).mean()
    plain = pt.Experiment([inp], topics, labels, eval_metrics=[nDCG @ 10, AP, P @ 5], names=["first"]).set_index("name")
    for measure in plain.columns:
        assert table.loc["first", measure] == plain.loc["first", measure]


def test_a_rubric_of_ones_own_names_its_columns(tmp_path):
    file = tmp_path / "r.toml"
    file.write_text('[[criteria]]\nid = "on_point"\nname = "On point"\nquestion = "Is it?"\n')
    out = RCPJudge(LexicalJudge(), rubric=Rubric.load(file))(candidates(1))
    assert "on_point" in out.columns
    assert "C1" not in out.columns
