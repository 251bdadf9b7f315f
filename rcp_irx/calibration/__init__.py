"""The statistics: arrays in, arrays out, float64; frames, ids and files belong to the rooms that call them."""

from rcp_irx.calibration.bradley_terry import BradleyTerryFit, comparison_components, fit_bradley_terry
from rcp_irx.calibration.gain import (
    centre,
    count_gain,
    criterion_gain,
    gain,
    linear_gain,
    logistic_gain,
    min_max_gain,
    pass_probabilities,
    test_information,
    unweighted_gain,
)
from rcp_irx.calibration.rasch import RaschFit, fit_rasch
from rcp_irx.calibration.two_pl import TwoPLFit, fit_2pl

__all__ = [
    "BradleyTerryFit",
    "RaschFit",
    "TwoPLFit",
    "centre",
    "comparison_components",
    "count_gain",
    "criterion_gain",
    "fit_2pl",
    "fit_bradley_terry",
    "fit_rasch",
    "gain",
    "linear_gain",
    "logistic_gain",
    "min_max_gain",
    "pass_probabilities",
    "test_information",
    "unweighted_gain",
]
