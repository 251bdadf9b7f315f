"""How far to trust gains: systems compared, the calibration checked, the judge's noise, agreement with people's labels.

    python examples/analyse_gains.py

Offline, on the bundled collection, with a stand-in judge: the numbers show the path, and nothing about rankers.
"""

import warnings

from rcp_irx.analysis import (
    compare,
    diagnose,
    disputed,
    explain,
    failure_modes,
    rubric_subsets,
    transfer,
    with_gain,
)
from rcp_irx.demo import results

warnings.simplefilter("ignore")  # the toy runs rank documents that were not judged; `compare` says so

runs, gains, qrels = results.runs(), results.gains(), results.qrels()

print(compare(runs, gains, qrels, families={"rare words": "lexical", "trigrams": "letters", "longest": "length"}), "\n")
noisy = compare(runs, gains, label_noise=True).systems.query("measure == 'RCPnDCG'")
print(noisy[["system", "mean", "low", "high", "interval", "noise_se"]].to_string(index=False), "\n")
for shape in ("unweighted", "criterion", "min-max"):  # other gains from the same abilities: does the order hold?
    ranked = compare(runs, with_gain(gains, shape)).systems.query("measure == 'RCPnDCG'").sort_values("rank")
    print(f"by {shape} gains: {' > '.join(ranked['system'])}")
print()
print(diagnose(gains, runs=runs, qrels=qrels), "\n")
print(explain("1", runs, gains, systems=("rare words", "longest"), qrels=qrels), "\n")
print(failure_modes(runs, qrels, k=10), "\n")
print(disputed(gains, qrels), "\n")
print(transfer(gains), "\n")
print(rubric_subsets(gains))
