"""The lengths of judged documents, from a frame of them or of their texts."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rcp_irx.documents import with_keys
from rcp_irx.errors import RCPError, examples
from rcp_irx.tables import KEYS


def doublings_of(documents: pd.DataFrame, rows: pd.DataFrame) -> pd.Series:
    """The log2 length of each row's document; NaN where `documents` has none."""
    if not isinstance(documents, pd.DataFrame):
        raise RCPError(f"documents must be a DataFrame of docno and text (or length), not {type(documents).__name__}")
    what = next((column for column in ("length", "text") if column in documents.columns), None)
    if what is None:
        raise RCPError(f"documents has neither a column 'text' nor 'length' (it has {list(documents.columns)})")
    keys = [key for key in KEYS if key in documents.columns or key == "docno"]
    keyed = with_keys(documents, [key for key in keys if key != "dataset"], "documents frame")
    if what == "text":
        wrong = keyed[[not isinstance(text, str) for text in keyed["text"]]]
        size = pd.Series([max(1, len(text)) if isinstance(text, str) else 1 for text in keyed["text"]], dtype=float)
    else:
        size = pd.to_numeric(keyed["length"], errors="coerce").astype(float)
        wrong = keyed[~(np.isfinite(size) & (size > 0))]
    if len(wrong):
        found = examples(wrong[[*keys, what]].itertuples(index=False, name=None))
        raise RCPError(f"documents: a {what} must be {'text' if what == 'text' else 'a number above 0'}, not {found}")
    sized = keyed[keys].assign(doublings=np.log2(size.to_numpy())).drop_duplicates()
    twice = sized[sized.duplicated(keys)]
    if len(twice):
        raise RCPError(f"documents has two lengths for {examples(twice[keys].itertuples(index=False, name=None))}")
    return rows[KEYS].merge(sized, on=keys, how="left", validate="many_to_one")["doublings"]
