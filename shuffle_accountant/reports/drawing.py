"""Drawing shared by all pictures: axes, styles, titles, bands with their width, legends."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant.rounds.protocol import Protocol

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

_KINDS = {
    "approximate": "any approximate randomizer",
    "discrete": "a channel matrix",
    "gaussian": "Gaussian noise",
    "general": "any randomizer",
    "hadamard-response": "Hadamard response",
    "laplace": "Laplace noise",
    "privunit": "PrivUnit",
    "rappor": "RAPPOR",
}
_SYMBOLS = {"eps0": "ε0", "delta0": "δ0", "sigma": "σ"}
_BOUNDS = {
    "erlingsson": "Erlingsson et al.",
    "girgis": "Girgis et al.",
    "rdp": "Rényi DP",
}
# Usual values of fields, which are shown only if they differ.
_USUAL = {"passes": 1, "selected": 1, "honest": 1.0, "colluding": 0}
# Fields that are not shown in a title: theorems are named beside the numbers.
_SILENT = {"kind", "reduction", "variant", "adjacency"}
# Largest number of kinds of rounds that are described one by one; more are only counted.
_MOST_KINDS = 2


MISSING = "plots need Matplotlib: pip install '.[plot]' in a clone"
"""What to do without Matplotlib."""

# The colours of Okabe and Ito, distinguishable for colour-blind readers too, without pale yellow.
# In grey print dashes and markers distinguish curves: the numbers of both share no factor, so that
# pairs repeat late.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_DASHES = ("-", (0, (6, 2)), (0, (6, 2, 1.5, 2)), (0, (1.5, 1.5)), (0, (3, 1.5)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# Size of a figure in inches, wide enough for a legend beside the axes.
_SIZE = (9.0, 5.5)
_LEGEND_WIDTH, _MANY_LINES = 44, 32
_TITLE_WIDTH = 74
# Shares of the axes' height: the panel of widths with the gap above it, and the gap alone.
_LOWER_PART, _GAP = 0.32, 0.14
_FEW_DECADES = 1e2

WIDTH_PANEL = "width of the bracket"
"""Label of the panel below the axes."""


def protocol_told(protocol: Protocol) -> str:
    """A protocol in one line, such as "any randomizer, ε0 = 4, 10,000 users; 4 rounds"."""
    if not len(protocol.distinct):
        return "no rounds"
    if len(protocol.distinct) > _MOST_KINDS:
        return f"{times_told(len(protocol))} of {len(protocol.distinct)} kinds"
    kinds = [(", ".join(_parts(one.to_dict())), times_told(count)) for one, count in protocol]
    if len(kinds) == 1:
        return "; ".join(kinds[0])
    return "; ".join(f"{what} ({times})" for what, times in kinds)


def times_told(rounds: int) -> str:
    """A number of rounds in words."""
    return f"{rounds:,} round" + ("" if rounds == 1 else "s")


def bound_named(name: str, form: str = "") -> str:
    """The name of a published bound, and which of its forms."""
    words = _BOUNDS.get(name, name.replace("_", " "))
    return f"{words} ({form})" if form else words


def _parts(state: dict[str, Any]) -> list[str]:
    """Parts of a title from a round's description in JSON types, without its long tables."""
    kind = state.get("kind")
    parts = [] if kind is None else [_KINDS.get(kind, str(kind).replace("-", " "))]
    for name, value in state.items():
        if name in _SILENT or value is None or value is False or value == _USUAL.get(name):
            continue
        if isinstance(value, dict):
            parts += _parts(value)
        elif name == "others":
            parts.append(f"{sum(group['users'] for group in value):,} others")
        elif isinstance(value, bool | int | float | str):
            parts.append(_part(name, value))
    return parts


def _part(name: str, value: bool | float | str) -> str:
    words = _SYMBOLS.get(name, name.replace("_", " "))
    if value is True:
        return words
    if isinstance(value, int):
        return f"{words} of {value:,}" if name in ("population", "size") else f"{value:,} {words}"
    return f"{words} = {value:.6g}" if isinstance(value, float) else f"{words} {value}"


def new_figure() -> Figure:
    """A figure without a screen, with room beside its axes."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(MISSING) from None
    return Figure(figsize=_SIZE, layout="constrained")


def new_axes(ax: Axes | None) -> Axes:
    """The axes given, or new ones of pyplot."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError(MISSING) from None
    return pyplot.figure(figsize=_SIZE, layout="constrained").add_subplot()


def curve_style(number: int) -> dict[str, Any]:
    """Colour, dashes and marker of a curve: no two of the first 35 look the same in grey."""
    return {
        "color": _COLOURS[number % len(_COLOURS)],
        "linestyle": _DASHES[number % len(_DASHES)],
        "marker": _MARKERS[number % len(_MARKERS)],
        "markersize": 4.5,
        "linewidth": 1.4,
    }


def certified_style() -> dict[str, Any]:
    """Line style of this package's own curves."""
    return {
        "color": "black",
        "linestyle": "-",
        "marker": ".",
        "markersize": 6.0,
        "linewidth": 2.4,
        "zorder": 3.0,
    }


def titled(ax: Axes, *lines: str) -> None:
    """A title of some lines, each wrapped."""
    told = [part for line in lines for part in textwrap.wrap(line, _TITLE_WIDTH)]
    ax.set_title("\n".join(told), fontsize="medium")


def nothing_drawn(ax: Axes, text: str) -> None:
    """Say why there is no curve, in the middle of the axes."""
    folded = textwrap.fill(text, 48)
    ax.text(0.5, 0.5, folded, ha="center", va="center", transform=ax.transAxes)
    ax.set(xticks=[], yticks=[])


def band(
    ax: Axes, x: ArrayLike, lower: ArrayLike, upper: ArrayLike, style: dict[str, Any], **line: Any
) -> None:
    """A curve of upper ends, the band down to the lower ends, and the width in a panel below.

    Brackets are mostly thinner than a line, so that the band alone would show nothing.
    """
    x, lower, upper = (np.asarray(values, dtype=float) for values in (x, lower, upper))
    ax.plot(x, upper, **style, **line)
    ax.fill_between(x, np.minimum(lower, upper), upper, color=style["color"], alpha=0.25)
    relative = (upper - lower) / np.where(upper > 0.0, upper, 1.0)
    some = relative > 0.0
    if not some.any():  # both ends are one number
        return
    panel = _width_panel(ax)
    panel.plot(x[some], relative[some], **{**style, **line, "markersize": 3.0, "linewidth": 1.2})
    plain_ticks(panel.yaxis)


def _width_panel(ax: Axes) -> Axes:
    """The panel in the lower part of the axes' place, made when it is first asked for."""
    from matplotlib.axes import Axes

    for child in ax.child_axes:
        if isinstance(child, Axes) and child.get_label() == WIDTH_PANEL:
            return child
    ax.set_axes_locator(_upper_part)
    whole = 1.0 - _LOWER_PART
    bounds = (0.0, -_LOWER_PART / whole, 1.0, (_LOWER_PART - _GAP) / whole)
    panel = ax.inset_axes(bounds, sharex=ax, label=WIDTH_PANEL)
    panel.set(yscale="log")
    panel.set_ylabel("relative\nwidth", fontsize="small")
    panel.tick_params(axis="both", labelsize="small", labelbottom=False)
    panel.grid(alpha=0.25)
    return panel


def _upper_part(ax: Any, renderer: Any) -> Bbox:
    """Position of the axes, in shares of the figure, if a panel lies below them."""
    from matplotlib.transforms import Bbox

    place = ax.get_position(original=True)
    lower = _LOWER_PART * place.height
    return Bbox.from_bounds(place.x0, place.y0 + lower, place.width, place.height - lower)


def plain_ticks(axis: Axis) -> None:
    """Ticks of a logarithmic axis as plain numbers, at 1, 2 and 5 if it has few powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    few = high < _FEW_DECADES * low
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def legend_beside(ax: Axes, left_out: Iterable[str] = ()) -> None:
    """A legend at the right of the axes, which covers nothing; below, what is not drawn and why."""
    from matplotlib.lines import Line2D

    handles, labels = ax.get_legend_handles_labels()
    if reasons := list(left_out):
        labels += ["not drawn:", *reasons]
        handles += [Line2D([], [], linestyle="none") for _ in range(1 + len(reasons))]
    labels = [_wrapped(label) for label in labels]
    lines = sum(label.count("\n") + 1 for label in labels)
    if handles:
        ax.legend(
            handles,
            labels,
            loc="upper left",
            bbox_to_anchor=(1.01, 1.0),
            borderaxespad=0.0,
            fontsize="x-small" if lines <= _MANY_LINES else "xx-small",
            labelspacing=0.5 if lines <= _MANY_LINES else 0.2,
            handlelength=4.0,
        )


def _wrapped(text: str) -> str:
    return "\n".join(
        part for line in text.splitlines() for part in textwrap.wrap(line, _LEGEND_WIDTH)
    )
