"""The report as one HTML file: what `content` gathered, in the page's template; nothing is loaded from elsewhere."""

from __future__ import annotations

import base64
import gzip
import json
from importlib import resources
from typing import Any

import jinja2
import numpy as np

from rcp_irx.report import charts
from rcp_irx.report.content import Content

TEXT_LENGTHS = (4000, 2000, 1000, 700, 500, 400, 300, 200, 150, 100, 50, 1)
"""Characters of each document's text that are tried, where all are too many, until the page is small enough."""

PRINTED = 6
"""Systems in the tables of queries and documents on paper, which is only so wide."""

SAMPLE = 20
"""The size of a page is guessed from every so many-th query."""


def render(content: Content, largest: int = 15_000_000) -> tuple[str, int | None]:
    """The page, and how many characters of each text it holds (None: all).

    Parameters
    ----------
    largest : int
        Bytes that the page may have: texts are shortened to fit, and the page says so.
    """
    longest = content.longest_text()
    for length in (None, *(length for length in TEXT_LENGTHS if length < longest)):
        if _guessed_size(content, length) <= largest:
            page = _page(content, length)
            if len(page.encode()) <= largest:
                return page, length
    return _page(content, length), length


def _guessed_size(content: Content, length: int | None) -> float:
    """About how many bytes a page will have: the queries' rows, and a sample of their documents."""
    sample = content.documents_of_queries(length, every=SAMPLE)
    return 500.0 * len(content.queries) + 0.98 * SAMPLE * sum(len(packed(rows)) for rows in sample)


def _page(content: Content, length: int | None) -> str:
    environment = jinja2.Environment(
        loader=jinja2.DictLoader({name: _asset(name) for name in ("page.html.j2", "page.css", "page.js")}),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = _number
    environment.filters["amount"] = _amount
    environment.globals["zip"] = zip
    environment.filters["signed"] = lambda value: "=" if not value else f"{value:+d}"
    page: str = environment.get_template("page.html.j2").render(
        c=content,
        curves=_curves(content),
        scores=_scores(content),
        calibration=_calibration(content),
        packed={str(i): packed(rows) for i, rows in enumerate(content.documents_of_queries(length))},
        length=length,
        printed=PRINTED,
    )
    return page.encode("utf-8", "replace").decode("utf-8")  # half an emoji is no text that can be written


def packed(value: Any) -> str:
    """A value as JSON, compressed, in letters that a page can hold."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), mtime=0)).decode()


def _asset(name: str) -> str:
    return (resources.files("rcp_irx.report") / name).read_text(encoding="utf-8")


def _number(value: Any, digits: int = 3) -> str:
    return "–" if value is None or value != value else f"{value:.{digits}f}"


def _amount(value: Any, digits: int) -> str:
    """A count or sum of money with thousands set apart; a text as it is."""
    return value if isinstance(value, str) else f"{value:,.{digits}f}"


def _curves(content: Content) -> Any:
    theta = np.linspace(*content.theta_range, 121)
    passes, gain = content.curves(theta)
    lines = [
        charts.Curve(f"{row.id} {row.name}", theta.tolist(), passes[:, i].tolist(), f"line{i % 8}")
        for i, row in enumerate(content.criteria.itertuples())
    ]
    lines.append(charts.Curve("gain", theta.tolist(), gain.tolist(), "gain"))
    x = charts.Axis("ability (logit)", theta[0], theta[-1], charts.ticks(theta[0], theta[-1], 8))
    y = charts.Axis("probability", 0.0, 1.0, (0, 0.25, 0.5, 0.75, 1))
    hardest = content.criteria.sort_values("beta")
    text = (
        f"Chance to pass each criterion, and the gain, over ability. The easiest is {hardest['id'].iloc[0]} (difficulty"
        f" {hardest['beta'].iloc[0]:.2f}), the hardest {hardest['id'].iloc[-1]} ({hardest['beta'].iloc[-1]:.2f})."
    )
    return charts.curves(lines, x, y, text)


def _scores(content: Content) -> Any:
    if not content.score_percentiles:
        return None
    rows = []
    values = [value for row in content.score_percentiles for value in row.percentiles]
    for row in content.score_percentiles:
        name = row.dataset or "all"
        rows.append(charts.Box(f"{name[:14]}{'...' * (len(name) > 14)}: {row.score}", row.score, row.percentiles))
    low, high = min(values), max(values)
    axis = charts.Axis("score (logit)", low, high, charts.ticks(low, high, 8), left=150)
    text = "Percentiles 5, 25, 50, 75 and 95 of raw tournament scores and of calibrated abilities: " + "; ".join(
        f"{row.name} {', '.join(f'{value:.2f}' for value in row.percentiles)}" for row in rows
    )
    return charts.boxes(rows, axis, text)


def _calibration(content: Content) -> Any:
    bins = content.bins[content.bins["answers"] > 0]
    if not len(bins):
        return None
    text = "Observed share of passes over predicted probability: " + "; ".join(
        f"{row.predicted:.2f} {row.observed:.2f} ({row.answers:.0f} answers)" for row in bins.itertuples()
    )
    return charts.reliability(bins["predicted"].tolist(), bins["observed"].tolist(), bins["answers"].tolist(), text)
