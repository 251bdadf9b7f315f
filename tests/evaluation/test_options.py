"""The options that all ways of scoring share: what is taken, what is refused, how they print."""

from __future__ import annotations

import numpy as np
import pytest

from rcp_irx import RCPError
from rcp_irx.evaluation.options import Options, options, printed

pytestmark = pytest.mark.quick


def test_defaults() -> None:
    assert options() == Options(None, "docno", "zero", False)
    assert printed("RCPnDCG", options()) == "RCPnDCG"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"cutoff": np.int16(7)}, "RCPnDCG@7"),
        ({"ties": "docno", "unjudged": "zero"}, "RCPnDCG"),
        ({"rules": "vidore", "cutoff": 10}, "RCPnDCG(ties='mean')@10"),
        ({"rules": "vidore", "ties": "mean"}, "RCPnDCG(ties='mean')"),
        ({"judged_only": True}, "RCPnDCG(unjudged='condensed')"),
        ({"judged_only": np.True_, "unjudged": "condensed"}, "RCPnDCG(unjudged='condensed')"),
        ({"judged_only": False, "unjudged": "upper"}, "RCPnDCG(unjudged='upper')"),
        ({"ignore_identical_ids": True, "cutoff": 1}, "RCPnDCG(ignore_identical_ids=True)@1"),
    ],
)
def test_printed(given: dict, text: str) -> None:
    assert printed("RCPnDCG", options(**given)) == text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rules": "beir"}, "rules must be one of 'nanobeir', 'bright', 'vidore', 'trec-dl'; it is 'beir'"),
        ({"rules": "vidore", "ties": "docno"}, "rules='vidore' orders ties by 'mean', and ties='docno' is given too"),
        ({"unjudged": "one"}, "unjudged must be one of 'zero', 'condensed', 'upper'; it is 'one'"),
        ({"unjudged": "upper", "judged_only": True}, "judged_only=True condenses the list, and unjudged='upper'"),
        ({"judged_only": 1}, "judged_only must be True or False; it is 1"),
        ({"ignore_identical_ids": "yes"}, "ignore_identical_ids must be True or False; it is 'yes'"),
    ],
)
def test_refused(given: dict, message: str) -> None:
    with pytest.raises(RCPError, match=message):
        options(**given)
