"""How noisy a judge is, told from its log alone; what half the calls would have done; two judges side by side.

    python examples/measure_judge_noise.py

Offline: a simulated judge with a planted preference for what is shown first (0.6 logits from the first place to the
last) and score noise of 1, which the log then gives back.
"""

from rcp_irx import FULL, Document, JudgmentLog, Query, Rubric, SimulatedJudge, demo
from rcp_irx.analysis import compare_labels, judge_noise, replay_budget
from rcp_irx.demo import results
from rcp_irx.documents import Pool
from rcp_irx.judging.runner import PoolRunner

gains, texts, runs = results.gains(), dict(demo.documents()), results.runs()
truth = gains.documents.set_index(["dataset", "qid", "docno"])["theta"].div(3).to_dict()
judge = SimulatedJudge(truth, gains.criteria["gamma"], gains.criteria["beta"], noise=1.0, position_bias=0.3, seed=1)

log = JudgmentLog(keep_text=True)  # yours: JudgmentLog("my.judgments")
for qid, query in demo.topics():
    pool = tuple(Document(docno, texts[docno]) for _, of, docno in truth if of == qid)
    PoolRunner(Pool(Query(qid, query), pool), judge, Rubric.load(), FULL, log).run()

print(
    judge_noise(log), replay_budget(log, (1 / 2, 1 / 3), runs), compare_labels(gains, log.calibrate(), runs), sep="\n\n"
)
