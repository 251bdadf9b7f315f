"""How far to trust gains: systems compared, the calibration checked, the judge's noise, agreement with people's labels.

    python examples/analyse_gains.py

Offline, on the bundled collection, with a stand-in judge: the numbers show the path, and nothing about rankers.
"""

import warnings

from rcp_irx.analysis import compare, diagnose, disputed, explain, failure_modes, rubric_subsets, transfer
from rcp_irx.demo import results

warnings.simplefilter("ignore")  # the toy runs rank documents that were not judged; `compare` says so

runs, gains, qrels = results.runs(), results.gains(), results.qrels()

print(compare(runs, gains, qrels, families={"rare words": "lexical", "trigrams": "letters", "longest": "length"}), "\n")
print(diagnose(gains, runs=runs, qrels=qrels), "\n")
print(explain("1", runs, gains, systems=("rare words", "longest"), qrels=qrels), "\n")
print(failure_modes(runs, qrels, k=10), "\n")
print(disputed(gains, qrels), "\n")
print(transfer(gains), "\n")
print(rubric_subsets(gains))
