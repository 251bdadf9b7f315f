"""Judge the demo collection with a language model on a local server (vLLM, SGLang, llama.cpp, Ollama, ...).

Start your server, then, from a clone:
    pip install -e '.[pyterrier,openai]'
    python examples/local_server.py http://localhost:8000/v1 my-model [topics]
"""

import sys

import pandas as pd

from rcp_irx import OpenAIJudge, RCPJudge, demo
from rcp_irx.demo import results

if len(sys.argv) < 3:
    print(__doc__)
    sys.exit()
base_url, model, topics = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1

# The pool: the 20 best passages of a toy ranker for each topic, and every labelled one. Yours: RRFPool, or any frame.
texts, queries, labels = dict(demo.documents()), dict(demo.topics()), results.qrels()
pool = pd.concat([results.runs()["rare words"].groupby("qid").head(20), labels]).drop_duplicates(["qid", "docno"])
pool = pool[pool["qid"].isin(list(queries)[:topics])][["qid", "docno"]]
pool = pool.assign(query=pool["qid"].map(queries), text=pool["docno"].map(texts))

# max_concurrency: as many as the server works on at a time; calls that queue there run into the timeout.
llm = OpenAIJudge(
    model, base_url=base_url, temperature=0, max_tokens=600, context_length=8192, max_concurrency=1, timeout=600
)
judge = RCPJudge(llm, log=f"{model.replace('/', '_')}.judgments", verbose=True)
judge.protocol = judge.protocol_for(pool, max_calls=30 * topics)  # a trial; FULL is about twice as many
print(judge.estimate(pool))

judge(pool)  # run it again: nothing is asked twice
print(judge.log.usage().to_string(index=False))
failures = judge.log.failures()["failure"].value_counts()
print(failures.to_string() if len(failures) else "no failures")

gains = judge.log.calibrate(max_failed=0.5)  # by default, queries with more than 5% of failed windows are refused
both = gains.documents.merge(labels, on=["qid", "docno"])
tau = both["gain"].corr(both["label"], method="kendall")
print(f"{len(both)} labelled passages; Kendall's tau of gain and label: {tau:.2f}")
print(both.groupby("label")["gain"].agg(["count", "mean"]).round(3).to_string())
