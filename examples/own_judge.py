"""A judge of your own in five lines: it gets the same log, resume and calibration as any other.

Run it from a clone: pip install -e '.[pyterrier]' && python examples/own_judge.py
"""

import tempfile

from rcp_irx import Judge, RCPJudge, RubricAnswer, TournamentAnswer, demo
from rcp_irx.demo.results import runs, shared_trigrams


class TrigramJudge(Judge):
    name = "trigrams/1"  # everything that can change an answer: a new name means new answers

    def tournament(self, query, documents):
        return TournamentAnswer([10 * shared_trigrams(query.text, d.text) - 5 for d in documents])

    def rubric(self, query, documents, rubric):
        shared = [shared_trigrams(query.text, d.text) for d in documents]
        return RubricAnswer([[share > 0.15 * level for level in range(1, len(rubric) + 1)] for share in shared])


texts, queries = dict(demo.documents()), dict(demo.topics())
pool = runs()["rare words"].groupby("qid").head(30)
pool = pool.assign(query=pool["qid"].map(queries), text=pool["docno"].map(texts))

log = f"{tempfile.mkdtemp()}/own.judgments"
first = RCPJudge(TrigramJudge(), log)
first(pool[pool["qid"].isin(["1", "2", "3"])])  # stopped early, say
print(first.log.usage().drop(columns="seconds").to_string(index=False), "\n")

again = RCPJudge(TrigramJudge(), log)  # another process, another day: what is in the log is not asked again
print("still to ask:", again.estimate(pool))
again(pool)
print(again.log.usage().drop(columns="seconds").to_string(index=False), "\n")
gains = again.log.calibrate()
best = gains.documents.sort_values("gain", ascending=False).groupby("qid").head(1)
print(best[["qid", "docno", "gain", "bt"]].round(3).to_string(index=False))
