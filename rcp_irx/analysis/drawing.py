"""What every plot is drawn with: axes, colours and markers, boxes, texts. matplotlib loads when axes are asked for."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rcp_irx.errors import MissingExtra, RCPError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLACK, GREY, BLUE, VERMILLION = "#000000", "#8c8c8c", "#0072B2", "#D55E00"
COLOURS = (BLUE, VERMILLION, "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Colours that stay apart for colour-blind readers (Okabe and Ito's); lines and markers differ besides."""
LINES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")


def axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The axes given, or those of a new figure of some width and height (inches).

    Raises
    ------
    RCPError
        If something else is given, such as an array of axes.
    MissingExtra
        Without matplotlib.
    """
    try:
        from matplotlib.axes import Axes
    except ImportError as error:
        raise MissingExtra("matplotlib", "plot") from error
    if ax is None:
        from matplotlib import pyplot

        made: Axes = pyplot.subplots(figsize=size, layout="constrained")[1]
        return made
    if not isinstance(ax, Axes):
        raise RCPError(f"ax must be one matplotlib Axes, not {type(ax).__name__}")
    return ax


def style(place: int) -> dict[str, Any]:
    """Colour, line and marker of the series in that place; no two of the first 84 are alike."""
    turn = place // len(COLOURS)
    return {
        "color": COLOURS[place % len(COLOURS)],
        "linestyle": LINES[(place + turn) % len(LINES)],
        "marker": MARKERS[(place + turn) % len(MARKERS)],
    }


def boxes(
    ax: Axes,
    places: NDArray[np.float64],
    rows: pd.DataFrame,
    colour: str,
    width: float,
    *,
    upright: bool,
    label: str = "",
) -> None:
    """A box per row of percentiles (`p5` to `p95`): the middle half, a line at the median, whiskers to 5 and 95%."""
    p5, p25, p50, p75, p95 = (rows[f"p{p}"].to_numpy(dtype=np.float64) for p in (5, 25, 50, 75, 95))
    low, high = places - width / 2, places + width / 2
    bar: dict[str, Any] = {"color": colour, "alpha": 0.55, "label": label or None, "zorder": 2}
    tails: dict[str, Any] = {"color": colour, "linewidth": 1.3, "zorder": 2}
    if upright:
        ax.vlines(np.tile(places, 2), np.append(p5, p75), np.append(p25, p95), **tails)
        ax.bar(places, p75 - p25, width, bottom=p25, **bar)
        ax.hlines(p50, low, high, color=BLACK, linewidth=1.8, zorder=3)
    else:
        ax.hlines(np.tile(places, 2), np.append(p5, p75), np.append(p25, p95), **tails)
        ax.barh(places, p75 - p25, width, left=p25, **bar)
        ax.vlines(p50, low, high, color=BLACK, linewidth=1.8, zorder=3)


def legend(ax: Axes, columns: int, *, points: float = 4, below: bool = False) -> None:
    """A legend outside the axes, so many points above or below them."""
    from matplotlib.transforms import ScaledTranslation

    shift = ScaledTranslation(0, (-points if below else points) / 72, ax.figure.dpi_scale_trans)
    ax.legend(
        fontsize="small",
        ncols=columns,
        frameon=False,
        borderaxespad=0.0,
        loc="upper center" if below else "lower center",
        bbox_to_anchor=(0.5, 0.0 if below else 1.0),
        bbox_transform=ax.transAxes + shift,
    )


def above(ax: Axes, x: float, text: str) -> None:
    """A text just above the axes, centred at x."""
    ax.annotate(
        text,
        (x, 1.0),
        xycoords=ax.get_xaxis_transform(),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize="small",
    )


def plain(text: str) -> str:
    """A name as matplotlib shows it unchanged: dollars enclose no formula."""
    return text.replace("$", r"\$")


def series(name: str) -> str:
    """A name for the legend, which would pass over one that begins with an underscore."""
    return (" " if name.startswith("_") else "") + plain(name)


def signed(value: float) -> str:
    """A number to two decimals, with a minus sign and not a hyphen."""
    return f"{value:.2f}".replace("-", "−")


def bands(edges: Sequence[float]) -> list[str]:
    """Names of the bands between edges: "< 0.02", "0.02–0.05", "≥ 0.05"."""
    between = [f"{low:g}–{high:g}" for low, high in itertools.pairwise(edges)]
    return [f"< {edges[0]:g}", *between, f"≥ {edges[-1]:g}"]
