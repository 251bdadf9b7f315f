"""A judge's text -> scores or passes by position, or a typed failure."""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rcp_irx.judging.judges.base import JudgeFailure
from rcp_irx.judging.responses import read_passes, read_scores
from tests.conftest import data_folder

pytestmark = pytest.mark.quick

CRITERIA = ["C1", "C2"]
SCORES = '{"scores": {"1": 2.5, "2": -1}}'
ANSWERS = '{"answers": {"1": {"C1": true, "C2": false}, "2": {"C1": false, "C2": false}}}'
FORM = 'Answer so, for each document:\n{"scores": {"1": SCORE, "2": SCORE, ...}}\nNothing else.'
KINDS = {"no_json", "invalid_json", "schema", "incomplete", "refused"}


def kind_of(read, *args, **options):
    with pytest.raises(JudgeFailure) as failure:
        read(*args, **options)
    assert failure.value.raw == args[0]
    return failure.value.kind


# Each text names 2.5 for the first of two documents and -1 for the second.
@pytest.mark.parametrize(
    "text",
    [
        SCORES,
        '  {"scores":\n\t{"2": -1.0, "1": 25e-1}}\n',
        f"```json\n{SCORES}\n```",
        f"```\n{SCORES}",
        f"Here are the 3 scores [1] {{so to say}}:\n{SCORES}\nDocument 2 is worth 4, {{x}} is 5.",
        f'<think>{{"scores": {{"1": 1, "2": 1}}}}, or 4?</think>{SCORES}',
        f"<thinking>\n{{</thinking>{SCORES}",
        f"<Reasoning>[1, 2</Reasoning>\n{SCORES}",
        f'It has to be {{"scores": {{"1": 1, "2": 1}}}}.</think>{SCORES}',
        f"<think>a</think>b<think>{{</think>{SCORES}",
        f"{SCORES}\n{SCORES}",
        f'{SCORES} or, in short, {{"1": 2.5, "2": -1}}',
        f"{{}} {SCORES} {{}}",
        f"{SCORES}}}",
        f'{{"note": "a remark"}} {SCORES}',
        '{"1": 2.5, "2": -1}',
        '{"Scores": {"1": 2.5, "2": -1}}',
        '{"answers": {"1": 2.5, "2": -1}}',
        '{"results": {"1": 2.5, "2": -1}}',
        '{"ratings": {"1": 2.5, "2": -1}}',
        '{"documents": {"1": 2.5, "2": -1}}',
        '{"reasoning": {"1": "good"}, "ranking": [1, 2], "scores": {"1": 2.5, "2": -1}}',
        '{"results": {"1": 0, "2": 0}, "scores": {"1": 2.5, "2": -1}}',
        '{"documents": 2, "ratings": {"1": 2.5, "2": -1}}',
        '{"scores": {"doc 1": 2.5, "document 2": -1}}',
        '{"scores": {"[1]": 2.5, "Doc [2]": -1}}',
        '{"scores": {"#1": 2.5, " DOCUMENT #2 ": -1}}',
        '{"scores": {"01": 2.5, "doc2": -1}}',
        '{"scores": {"document_1": 2.5, "passage 2": -1}}',
        '{"scores": {"1": "2.5", "2": "-1"}}',
        '{"scores": {"1": "+2.5", "2": " -1.0 "}}',
        '{"scores": [{"id": 1, "score": 2.5}, {"id": 2, "score": -1}]}',
        '[{"id": "2", "score": "-1"}, {"id": "1", "score": "2.5"}]',
        '[ {"position": 1, "rating": 2.5, "rank": 1, "reason": "good"}, {"position": 2, "rating": -1} ]',
        '{"results": [{"document": "doc 1", "relevance_score": 2.5}, {"doc": "[2]", "Score": -1}]}',
        '[{"passage": 1, "score": 2.5}, {"index": " 2 ", "score": -1}]',
    ],
)
def test_scores_are_read_by_name(text):
    assert read_scores(text, 2) == [2.5, -1.0]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "no_json"),
        (" \n ", "no_json"),
        ("1: 2.5, 2: -1", "no_json"),
        ("Document 1 scores 2.5 and document 2 scores -1.", "no_json"),
        ("[2.5, -1]", "no_json"),
        ("[1] 2.5\n[2] -1", "no_json"),
        ("3", "no_json"),
        ("null", "no_json"),
        (f"<think>{SCORES}", "no_json"),
        (f"<think>a</think>{SCORES}<think>", "no_json"),
        (f"<think>{SCORES}</think>", "no_json"),
        (f"<think>{SCORES}</think> I would say 2.5 and -1.", "no_json"),
        ("{", "invalid_json"),
        (SCORES[:-1], "invalid_json"),
        ('{"scores": {"1": 2.5, "2": -1', "invalid_json"),
        ('{"scores": {"1": 2.5, "2": -1,}}', "invalid_json"),
        ('{"scores": {"1": 2.5, "2": +1}}', "invalid_json"),
        ('{"scores": {"1": 2.5, 2: -1}}', "invalid_json"),
        ("{'scores': {'1': 2.5, '2': -1}}", "invalid_json"),
        ("{scores: " + '{"1": 2.5, "2": -1}}', "invalid_json"),
        ('{"draft": {"1": 2.5, "2": -1}, "scores": {"1": 3', "invalid_json"),
        ('{"draft": {"1": 2.5, "2": -1}, "scores": oops}', "invalid_json"),
        (SCORES + ' {"scores": {"1": 3', "invalid_json"),
        ('{"scores": {"1": SCORE, "2": SCORE, ...}}', "invalid_json"),
        ('[{"id": 1, "score": 2.5}, {"id": 2, "score": -1}', "invalid_json"),
        ("{}", "schema"),
        ('{"error": "I cannot"}', "schema"),
        ('{"scores": 2.5}', "schema"),
        ('{"scores": null}', "schema"),
        ('{"scores": [2.5, -1]}', "schema"),
        ('{"scores": [2.5, -1], "ratings": {"1": 2.5, "2": -1}}', "schema"),
        ('{"scores": "1: 2.5, 2: -1"}', "schema"),
        ('{"scores": [["1", 2.5], ["2", -1]]}', "schema"),
        ('{"scores": [{"1": 2.5}, {"2": -1}]}', "schema"),
        ('{"ranks": {"1": 2, "2": 1}}', "schema"),
        ('{"ratings": {"1": 2.5, "2": -1}, "results": {"1": 0, "2": 0}}', "schema"),
        ('{"scores": {"1": 2.5, "2": -1}, "Scores": {"1": 0, "2": 0}}', "schema"),
        ('{"1": 2.5, "2": -1, "scores": {"1": 0, "2": 0}}', "schema"),
        ('{"1": 2.5, "2": -1, "reason": "good"}', "schema"),
        ('{"scores": {"1": 2.5, "2": -1, "1": 2.5}}', "schema"),
        ('{"scores": {"1": 2.5, "2": -1}, "scores": {"1": 2.5, "2": -1}}', "schema"),
        ('{"scores": {"1": 2.5, "2": -1, "doc 1": 2.5}}', "schema"),
        ('{"scores": {"1": 2.5, "2": -1, "02": -1}}', "schema"),
        ('{"scores": {"1": 2.5, "1 ": -1}}', "schema"),
        ('{"scores": {"0": 2.5, "1": -1}}', "schema"),
        ('{"scores": {"1": 2.5, "2": -1, "3": 0}}', "schema"),
        ('{"scores": {"1": 2.5, "2": -1, "x": 0}}', "schema"),
        ('{"scores": {"x": 2.5, "y": -1}}', "schema"),
        ('{"scores": {"+1": 2.5, "2": -1}}', "schema"),
        ('{"scores": {"-1": 2.5, "2": -1}}', "schema"),
        ('{"scores": {"1.0": 2.5, "2": -1}}', "schema"),
        ('{"scores": {"١": 2.5, "2": -1}}', "schema"),  # ARABIC-INDIC DIGIT ONE
        ('{"scores": {"¹": 2.5, "2": -1}}', "schema"),
        ('{"scores": {"[1": 2.5, "2": -1}}', "schema"),
        ('{"scores": {"1st": 2.5, "2": -1}}', "schema"),
        ('{"scores": {"1 2": 2.5, "2": -1}}', "schema"),
        ('{"scores": {"": 2.5, "2": -1}}', "schema"),
        ('{"scores": {"' + "1" * 5000 + '": 2.5, "2": -1}}', "schema"),
        ('{"scores": {"1": 2.5, "2": true}}', "schema"),
        ('{"scores": {"1": 2.5, "2": null}}', "schema"),
        ('{"scores": {"1": 2.5, "2": NaN}}', "schema"),
        ('{"scores": {"1": 2.5, "2": -Infinity}}', "schema"),
        ('{"scores": {"1": 2.5, "2": 1e999}}', "schema"),
        ('{"scores": {"1": 2.5, "2": ' + "9" * 5000 + "}}", "schema"),
        ('{"scores": {"1": 2.5, "2": "1e999"}}', "schema"),
        ('{"scores": {"1": 2.5, "2": "nan"}}', "schema"),
        ('{"scores": {"1": 2.5, "2": "inf"}}', "schema"),
        ('{"scores": {"1": 2.5, "2": "true"}}', "schema"),
        ('{"scores": {"1": 2.5, "2": ""}}', "schema"),
        ('{"scores": {"1": 2.5, "2": "-1/5"}}', "schema"),
        ('{"scores": {"1": 2.5, "2": "about 4"}}', "schema"),
        ('{"scores": {"1": 2.5, "2": "1_0"}}', "schema"),
        ('{"scores": {"1": 2.5, "2": "٣"}}', "schema"),
        ('{"scores": {"1": 2.5, "2": [-1]}}', "schema"),
        ('{"scores": {"1": 2.5, "2": {"score": -1}}}', "schema"),
        ('[{"id": 1, "score": 2.5}, {"id": 2}]', "schema"),
        ('[{"id": 1, "score": 2.5}, {"score": -1}]', "schema"),
        ('[{"id": 1, "score": 2.5}, -1]', "schema"),
        ('[{"id": 1, "score": 2.5}, {"id": 2, "score": -1}, {"id": 2, "score": -1}]', "schema"),
        ('[{"id": 0, "score": 2.5}, {"id": 1, "score": -1}]', "schema"),
        ('[{"id": 1.5, "score": 2.5}, {"id": 2, "score": -1}]', "schema"),
        ('[{"id": -1, "score": 2.5}, {"id": 2, "score": -1}]', "schema"),
        ('[{"id": true, "score": 2.5}, {"id": 2, "score": -1}]', "schema"),
        ('[{"id": null, "score": 2.5}, {"id": 2, "score": -1}]', "schema"),
        ('[{"id": 1, "index": 2, "score": 2.5}, {"id": 2, "index": 1, "score": -1}]', "schema"),
        ('[{"id": 1, "ID": 2, "score": 2.5}, {"id": 2, "score": -1}]', "schema"),
        ('[{"id": 1, "score": 2.5, "rating": 4}, {"id": 2, "score": -1}]', "schema"),
        ('{"id": 1, "score": 2.5}\n{"id": 2, "score": -1}', "schema"),
        ('{"1": 2.5}\n{"2": -1}', "schema"),
        (SCORES + '{"scores": {"1": 2.5, "2": 0}}', "schema"),
        ('{"scores": {"1": 2.5}} ' + SCORES, "schema"),
        ('{"scores": {}}', "incomplete"),
        ('{"scores": []}', "incomplete"),
        ('{"scores": {"1": 2.5}}', "incomplete"),
        ('{"2": -1}', "incomplete"),
        ('[{"id": 2, "score": -1}]', "incomplete"),
        ("I'm sorry, but I can't assist with that.", "refused"),
        ("I\u2019m very sorry. Document 1 scores 2.5.", "refused"),
        ("Sorry, that is not possible.", "refused"),
        ("  **I cannot** provide a score.", "refused"),
        ("I can't help with this.", "refused"),
        ("I can\u2019t.", "refused"),
        ("I am unable to judge this text.", "refused"),
        ("I won't do that", "refused"),
        ("As an AI language model, I have no opinion.", "refused"),
        ("<think>They ask for scores.</think>\nI cannot help with that.", "refused"),
        ("The author says: I cannot help.", "no_json"),
        ("I candidly say 2.5 and -1.", "no_json"),
        ("As an aim, ...", "no_json"),
        ('I cannot do better than {"scores": {"1": 2.5', "invalid_json"),
        ("<think>I cannot help with that.", "no_json"),
    ],
)
def test_a_text_that_does_not_name_every_score_once_is_a_failure(text, kind):
    assert kind_of(read_scores, text, 2) == kind


def test_a_text_with_an_answer_is_no_refusal():
    assert read_scores(f"I'm sorry, I cannot be sure: {SCORES}", 2) == [2.5, -1.0]


def test_scores_keep_their_size_and_every_digit():
    assert read_scores('{"scores": {"1": 1e15, "2": -0.1234567890123456, "3": "7e-3"}}', 3) == [
        1e15,
        -0.1234567890123456,
        0.007,
    ]


def test_ten_positions_are_not_taken_for_one():
    answer = {"scores": {str(position): position / 4 for position in range(12, 0, -1)}}
    assert read_scores(json.dumps(answer), 12) == [position / 4 for position in range(1, 13)]


@pytest.mark.parametrize("n_documents", [1, 3])
def test_an_answer_for_another_number_of_documents_is_none(n_documents):
    assert kind_of(read_scores, SCORES, n_documents) == ("schema" if n_documents < 2 else "incomplete")


# Each text says yes, no for the first of two documents and no, no for the second.
@pytest.mark.parametrize(
    "text",
    [
        ANSWERS,
        f"```json\n{ANSWERS}\n```",
        f"<think>C1? true</think>So:\n{ANSWERS}",
        '{"1": {"C1": true, "C2": false}, "2": {"C2": false, "C1": false}}',
        '{"results": {"doc 1": {"C1": true, "C2": false}, "[2]": {"C1": false, "C2": false}}}',
        '{"answers": {"1": [true, false], "2": [false, false]}}',
        '{"answers": {"1": {"c1": "yes", " c2 ": "No"}, "2": {"C1": "N", "C2": "n"}}}',
        '{"answers": {"1": {"C1": "True", "C2": "FALSE"}, "2": {"C1": "fail", "C2": "Fail"}}}',
        '{"answers": {"1": {"C1": 1, "C2": 0}, "2": {"C1": "0", "C2": 0}}}',
        '{"answers": {"1": {"C1": "pass", "C2": 0}, "2": {"C1": false, "C2": " no "}}}',
        '{"answers": {"1": ["y", 0], "2": ["0", "n"]}}',
        '{"answers": {"1": {"C1": true, "C2": false, "reason": "good"}, "2": {"C1": 0, "C2": 0, "why": null}}}',
        '[{"id": 1, "C1": true, "C2": false}, {"id": "doc 2", "C1": false, "C2": false}]',
        '{"answers": [{"id": 2, "answers": {"C1": false, "C2": false}}, {"id": 1, "answers": {"C1": 1, "C2": 0}}]}',
        '{"documents": [{"document": 1, "answers": [true, false]}, {"document": 2, "answers": [false, false]}]}',
        '[{"position": 1, "C1": true, "C2": false, "reason": "good"}, {"position": 2, "c1": false, "c2": false}]',
    ],
)
def test_passes_are_read_by_name(text):
    assert read_passes(text, 2, CRITERIA) == [[True, False], [False, False]]


def row(text):
    """An answer for one document that holds this row."""
    return f'{{"answers": {{"1": {text}}}}}'


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "no_json"),
        ("yes, no", "no_json"),
        ("[true, false]", "no_json"),
        ("I'm sorry, I can't assist with that.", "refused"),
        (ANSWERS[:-1], "invalid_json"),
        ('{"C1": true, "C2": false}', "schema"),
        ('{"answers": {"C1": true, "C2": false}}', "schema"),
        ('{"C1": {"1": true}, "C2": {"1": false}}', "schema"),
        ('{"answers": [[true, false]]}', "schema"),
        ('{"answers": [true, false]}', "schema"),
        (row("true"), "schema"),
        (row('"yes, no"'), "schema"),
        (row("null"), "schema"),
        (row("[true]"), "schema"),
        (row("[true, false, false]"), "schema"),
        (row("[[true, false]]"), "schema"),
        (row('{"C1": true, "C2": null}'), "schema"),
        (row('{"C1": true, "C2": 2}'), "schema"),
        (row('{"C1": true, "C2": -1}'), "schema"),
        (row('{"C1": true, "C2": 0.5}'), "schema"),
        (row('{"C1": true, "C2": NaN}'), "schema"),
        (row('{"C1": true, "C2": "2"}'), "schema"),
        (row('{"C1": true, "C2": "maybe"}'), "schema"),
        (row('{"C1": true, "C2": ""}'), "schema"),
        (row('{"C1": true, "C2": [false]}'), "schema"),
        (row('{"C1": true, "C2": {"answer": false}}'), "schema"),
        (row('{"C1": true, "C2": false, "C3": true}'), "schema"),
        (row('{"C1": true, "C2": false, "c1": true}'), "schema"),
        (row('{"C1": true, "C2": false, "C2": true}'), "schema"),
        (row('{"C1": true, "C2": false}, "01": {"C1": true, "C2": false}'), "schema"),
        (row('{"C1": true, "C2": false}, "2": {"C1": true, "C2": false}'), "schema"),
        ('[{"id": 1, "C1": true, "C2": false, "answers": {"C1": false, "C2": false}}]', "schema"),
        ('[{"id": 1, "doc": 1, "C1": true, "C2": false}]', "schema"),
        ('[{"C1": true, "C2": false}]', "schema"),
        (row("{}"), "incomplete"),
        (row('{"C1": true}'), "incomplete"),
        (row('{"Topical Relevance": "in part", "C2": false}'), "incomplete"),
        ('{"answers": {}}', "incomplete"),
    ],
)
def test_a_text_that_does_not_answer_every_criterion_once_is_a_failure(text, kind):
    assert kind_of(read_passes, text, 1, CRITERIA) == kind


@pytest.mark.parametrize(
    ("criteria", "text", "passes"),
    [
        (["a", "A"], '{"answers": {"1": {"A": true, "a": false}}}', [[False, True]]),  # case tells them apart
        (["1", "2"], '{"answers": {"1": {"1": true, "2": false}}}', [[True, False]]),
        (["id", "answers"], '{"answers": {"1": {"id": true, "answers": false}}}', [[True, False]]),
        (["id", "answers"], '[{"position": 1, "id": 1, "answers": "no"}]', [[True, False]]),
        (["Straße"], '{"1": {"STRASSE": "yes"}}', [[True]]),
        (["only"], '{"1": [0]}', [[False]]),
        ([f"C{i}" for i in range(1, 21)], json.dumps({"1": {f"C{i}": i == 12 for i in range(1, 21)}}), None),
    ],
)
def test_criteria_of_any_id_and_number(criteria, text, passes):
    assert read_passes(text, 1, criteria) == (passes or [[i == 12 for i in range(1, 21)]])


@pytest.mark.parametrize(
    "text",
    [
        SCORES,
        '{ "scores": {"2": -1.0,\n "1": 2.5} }',
        f"```json\n{SCORES}\n```",
        f"{SCORES} {SCORES}",
        '{"1": 2.5, "2": -1}',
        '{"scores": {"1": 2.5, "2": -1}, "reasoning": "as in the example"}',
    ],
)
def test_the_prompts_own_example_is_no_answer(text):
    assert kind_of(read_scores, text, 2, example=SCORES) == "schema"
    assert kind_of(read_scores, text, 2, example=f"Answer like this:\n{SCORES}\nThank you.") == "schema"


def test_yes_is_not_one_where_the_example_is_looked_for():
    example = '{"1": {"C1": true, "C2": false}}'
    assert kind_of(read_passes, example, 1, CRITERIA, example=example) == "schema"
    assert read_passes('{"1": {"C1": 1, "C2": 0}}', 1, CRITERIA, example=example) == [[True, False]]


@pytest.mark.parametrize("example", [SCORES, FORM, f"{FORM} As in {SCORES}", '{"scores": {"N": 1, "N": 1}}'])
def test_an_answer_beside_the_example_is_read(example):
    answer = '{"scores": {"1": 4, "2": 0}}'
    assert read_scores(answer, 2, example=example) == [4.0, 0.0]
    assert read_scores(f"{example}\n{answer}", 2, example=example) == [4.0, 0.0]
    assert read_scores(f"{answer} as in {example}", 2, example=example) == [4.0, 0.0]
    assert kind_of(read_scores, example, 2, example=example) == "schema"
    assert kind_of(read_scores, f"{example} {answer[:-1]}", 2, example=example) == "invalid_json"


def test_the_form_in_a_prompt_is_passed_over_however_it_is_laid_out():
    text = 'The form is {"scores":\n  {"1": SCORE,\n  "2": SCORE, ...}\n}.'
    assert kind_of(read_scores, text, 2, example=FORM) == "schema"
    assert read_scores(f"{text} {SCORES}", 2, example=FORM) == [2.5, -1.0]


def test_malformed_outputs_of_real_models_are_failures():
    texts = json.loads((data_folder("malformed") / "llm_outputs.json").read_text(encoding="utf-8"))
    assert len(texts) == 511
    for text in texts:
        for n_documents in (1, 2, 10):
            assert kind_of(read_scores, text, n_documents) in KINDS
            assert kind_of(read_passes, text, n_documents, CRITERIA) in KINDS


UNITS = ["{", "[", '{"a":', '{"1":', "[{", '[{"a":[', "{}", '{"1":1}', "[{}]", '{"scores":{}} ', "[ ", "{ ", '"', "\\"]
UNITS += ["a:", "{a:", "{a", "{a }", '{"a" }', "<think>", "</think>", "<think", "<think ", "I'm sorry ", "- ", "1", "0"]


@pytest.mark.parametrize("unit", UNITS)
def test_200_000_characters_are_read_in_a_second_or_two(unit):
    text = (unit * 200_000)[:200_000]
    start = time.process_time()
    assert kind_of(read_scores, text, 2, example=FORM) in KINDS
    assert kind_of(read_passes, text, 2, CRITERIA, example=FORM) in KINDS
    assert time.process_time() - start < 4


def test_an_answer_of_many_documents_is_read():
    n = 20_000
    assert read_scores(json.dumps({"scores": {f"doc {i}": i for i in range(1, n + 1)}}), n) == list(range(1, n + 1))


def prose(**options):
    """Text that holds no bracket and no tag."""
    return st.text(st.characters(exclude_characters="{}[]<>", exclude_categories=["Cs"]), **options)


AROUND = st.tuples(
    prose(max_size=20), st.sampled_from([("", ""), ("```json\n", "\n```"), ("<think>{</think>", "")])
).map(lambda drawn: (drawn[0] + drawn[1][0], drawn[1][1] + drawn[0]))
POSITIONS = ["{}", "doc {}", "document {}", "[{}]", "Doc [{}]", "#{}", "0{}"]
FINITE = st.floats(-1e6, 1e6, allow_nan=False)


@st.composite
def named_scores(draw):
    """A text, the scores it names, one pair (position, value) a mention, and the number of documents."""
    n = draw(st.integers(1, 6))
    order = draw(st.permutations(range(1, n + 1)))
    pairs = [(position, draw(FINITE)) for position in order]
    for change in draw(st.lists(st.sampled_from(["drop", "again", "unknown", "bad"]), max_size=2)):
        at = draw(st.integers(0, len(pairs) - 1)) if pairs else 0
        if change == "drop":
            del pairs[at : at + 1]
        elif change == "again":
            pairs.append((draw(st.integers(1, n)), draw(FINITE)))
        elif change == "unknown":
            pairs.append((draw(st.sampled_from([0, n + 1, 10**12])), draw(FINITE)))
        else:
            bad = draw(st.sampled_from([None, True, "x", "NaN", float("nan"), float("inf"), [1.0], {"score": 1.0}]))
            pairs.append((draw(st.integers(1, n)), bad))
    shape = draw(st.sampled_from(["mapping", "wrapped", "list", "wrapped list"]))
    parts = []
    for position, value in pairs:
        name = json.dumps(draw(st.sampled_from(POSITIONS)).format(position))
        shown = json.dumps(value)
        if isinstance(value, float) and draw(st.booleans()):
            shown = f'"{value!r}"'
        parts.append(f"{name}: {shown}" if "list" not in shape else f'{{"id": {name}, "score": {shown}}}')
    text = "[" + ", ".join(parts) + "]" if "list" in shape else "{" + ", ".join(parts) + "}"
    if "wrapped" in shape:
        text = f'{{"{draw(st.sampled_from(["scores", "results", "ratings"]))}": {text}}}'
    before, after = draw(AROUND)
    return before + text + after, pairs, n


@settings(deadline=None, max_examples=300)
@given(named_scores())
def test_scores_are_returned_exactly_where_each_position_is_named_once(drawn):
    text, pairs, n = drawn
    found = dict(pairs)
    right = all(type(value) is float and abs(value) <= 1e6 for _, value in pairs)
    if len(pairs) == n and set(found) == set(range(1, n + 1)) and right:
        assert read_scores(text, n) == [found[position] for position in range(1, n + 1)]
    else:
        assert kind_of(read_scores, text, n) in KINDS


TRUE = ["true", '"yes"', '"TRUE"', '"Y"', '"pass"', "1", '"1"']
FALSE = ["false", '"no"', '"False"', '"n"', '"fail"', "0", '"0"']


@st.composite
def named_passes(draw):
    """A text with a row for each document, in any of the forms, and the rows."""
    rows = draw(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=5))
    listed = draw(st.booleans())
    parts = []
    for position in draw(st.permutations(range(1, len(rows) + 1))):
        name = json.dumps(draw(st.sampled_from(POSITIONS)).format(position))
        values = [draw(st.sampled_from(TRUE if verdict else FALSE)) for verdict in rows[position - 1]]
        cells = [f'"{draw(st.sampled_from("Cc"))}{i}": {value}' for i, value in enumerate(values, 1)]
        cells = ", ".join(draw(st.permutations(cells)))
        whole = draw(st.sampled_from([f"{{{cells}}}", f"[{', '.join(values)}]"]))
        if listed:
            parts.append(draw(st.sampled_from([f'{{"id": {name}, {cells}}}', f'{{"id": {name}, "answers": {whole}}}'])))
        else:
            parts.append(f"{name}: {whole}")
    text = f"[{', '.join(parts)}]" if listed else f"{{{', '.join(parts)}}}"
    text = draw(st.sampled_from([text, f'{{"answers": {text}}}', f'{{"documents": {text}}}']))
    before, after = draw(AROUND)
    return before + text + after, [list(verdicts) for verdicts in rows]


@settings(deadline=None, max_examples=300)
@given(named_passes())
def test_passes_are_returned_in_every_form(drawn):
    text, rows = drawn
    assert read_passes(text, len(rows), ["C1", "C2", "C3"]) == rows


FRAGMENTS = ["{", "}", "[", "]", ":", ",", '"', "\\", " ", "\n", "1", "2", "3", "-", ".", "e9", "true", "false", "null"]
FRAGMENTS += [
    "NaN",
    '"1": ',
    '"2": ',
    '"doc 2": ',
    '"id": 1, ',
    '"score": 2',
    '"scores": ',
    '"answers": ',
    '"C1": ',
    "0",
]
FRAGMENTS += ["<think>", "</think>", "```json", SCORES, ANSWERS, '{"1": 4, "2": 0}', '{"C1": 1, "C2": 0}', "I'm sorry"]


LISTED = '[{"id": 1, "score": 2.5}, {"id": "doc 2", "score": "-1"}]'
ROWS = '[{"id": 1, "C1": true, "C2": false}, {"id": 2, "C1": 0, "C2": 1}]'
TOKENS = [
    "1",
    "2",
    "3",
    "0",
    "-2.5",
    '"1"',
    '"2"',
    '"[2]"',
    '"C1"',
    '"c2"',
    '"score"',
    '"answers"',
    '"4"',
    "true",
    '"no"',
]


@st.composite
def mutated(draw):
    """A right answer of which tokens were changed, or that was cut, doubled, or had pieces of it replaced."""
    text = draw(st.sampled_from([SCORES, ANSWERS, LISTED, ROWS, '{"1": 3, "[2]": 0.5}']))
    for _ in range(draw(st.integers(0, 2))):
        tokens = re.findall(r'"[^"]*"|[a-z]+|[0-9.+-]+|\s+|.', text)
        at = draw(st.integers(0, len(tokens) - 1))
        tokens[at] = draw(st.sampled_from([*TOKENS, *tokens]))
        text = "".join(tokens)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        start = draw(st.integers(0, len(text)))
        stop = draw(st.integers(start, min(len(text), start + draw(st.sampled_from([0, 1, 6, 1000])))))
        middle = draw(st.sampled_from(FRAGMENTS) | st.just(text[start:stop] * 2) | st.text(max_size=3))
        text = text[:start] + middle + text[stop:]
    return text


def read_or_fail(read, text, *args, **options):
    """What is read, or None for a typed failure; anything else that is raised is an error."""
    try:
        return read(text, *args, **options)
    except JudgeFailure as failure:
        if failure.kind not in KINDS or failure.raw != text:
            raise AssertionError(f"{failure.kind!r} with {failure.raw!r}") from failure
        return None


ANY_TEXT = st.text() | st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join) | mutated() | mutated()
SHOWN = st.sampled_from([2, 2, 1, 3])


@settings(deadline=None, max_examples=1000)
@given(ANY_TEXT, SHOWN, st.sampled_from(["", SCORES, FORM, '{"1": 4, "2": 0}']))
def test_a_score_stands_beside_its_position_in_the_text(text, n, example):
    scores = read_or_fail(read_scores, text, n, example=example)
    assert scores is None or len(scores) == n
    number = r'"?\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)'
    for position, score in enumerate(scores or [], 1):
        name = rf'(?<![0-9.+-])0*{position}(?:\.0*)?(?![0-9])\s*\]?\s*"?\s*'
        named = re.findall(rf'(?={name}(?::|,\s*"score"\s*:)\s*{number})', text)
        named += re.findall(rf'(?="score"\s*:\s*{number}\s*"?\s*,\s*"id"\s*:[^,]*?{name})', text)
        assert score in [float(value) for value in named]


@settings(deadline=None, max_examples=1000)
@given(ANY_TEXT, SHOWN, st.sampled_from(["", ANSWERS]))
def test_a_pass_stands_beside_its_position_and_criterion_in_the_text(text, n, example):
    passes = read_or_fail(read_passes, text, n, CRITERIA, example=example)
    assert passes is None or [len(verdicts) for verdicts in passes] == [2] * n
    for position, verdicts in enumerate(passes or [], 1):
        name = rf'(?<![0-9.+-])0*{position}(?:\.0*)?(?![0-9])\s*\]?\s*"?\s*'
        rows = re.findall(rf"(?={name}:\s*\{{([^{{}}]*)\}})", text)
        rows += [held for held in re.findall(r"\{([^{}]*)\}", text) if re.search(rf'"id"\s*:[^,]*?{name}', held)]
        for criterion, verdict in zip(CRITERIA, verdicts, strict=True):
            said = [word for held in rows for word in re.findall(rf'(?i)"\s*{criterion}\s*"\s*:\s*"?\s*(\w+)', held)]
            assert verdict in [word.lower() in ("true", "yes", "y", "pass", "1") for word in said]


@pytest.mark.parametrize("text", [SCORES, '{"1": 2.5, "2": -1}', '[{"id": 1, "score": 2.5}, {"id": 2, "score": -1}]'])
def test_an_answer_that_is_cut_anywhere_is_none(text):
    for end in range(len(text)):
        assert kind_of(read_scores, text[:end], 2) == ("no_json" if text[:end] in ("", "[") else "invalid_json")
