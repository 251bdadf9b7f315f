"""The shipped rubric, and files of a user's own."""

from __future__ import annotations

import pytest

from rcp_irx import Criterion, RCPError, Rubric

pytestmark = pytest.mark.quick


def test_shipped_rubric_has_the_five_criteria_of_table_1():
    rubric = Rubric.load()
    assert rubric.ids == ["C1", "C2", "C3", "C4", "C5"]
    assert [c.name for c in rubric.criteria] == [
        "Topical Relevance",
        "Information Utility",
        "Entity/Detail Match",
        "Direct Answer",
        "Thorough Treatment",
    ]
    assert all(c.question.endswith("?") for c in rubric.criteria)


def test_a_rubric_of_ones_own(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('[[criteria]]\nid = "legal"\nname = "On point"\nquestion = "Is the statute named?"\n')
    rubric = Rubric.load(file)
    assert rubric == Rubric((Criterion("legal", "On point", "Is the statute named?"),))
    assert Rubric.from_json(rubric.to_json()) == rubric
    assert rubric.digest != Rubric.load().digest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lacks 'criteria'"),
        ('[[criteria]]\nid = "a"\nname = "A"\n', "lacks 'question'"),
        ("[[criteria]", "not TOML"),
        ('[[criteria]]\nid = "gain"\nname = "A"\nquestion = "B?"\n', "column names of the gain table: 'gain'"),
        ('[[criteria]]\nid = "a"\nname = "A"\nquestion = " "\n', "no id or no question"),
        ('[[criteria]]\nid = "a"\nname = "A"\nquestion = "B?"\n' * 2, "repeated: 'a'"),
    ],
)
def test_a_damaged_rubric_is_named(tmp_path, text, message):
    file = tmp_path / "rubric.toml"
    file.write_text(text)
    with pytest.raises(RCPError, match=message):
        Rubric.load(file)


def test_a_missing_rubric_file_is_named(tmp_path):
    with pytest.raises(RCPError, match=r"nowhere\.toml cannot be read"):
        Rubric.load(tmp_path / "nowhere.toml")
