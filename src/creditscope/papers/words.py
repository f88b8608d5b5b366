"""How is a line of a table written?  Numbers as people read them, the same in text and Markdown."""

from __future__ import annotations

import math
from decimal import Decimal
from statistics import fmean, stdev

from creditscope.papers.comparison import LOGARITHMIC, Kind, Outcome
from creditscope.papers.published import USUAL, Figure
from creditscope.papers.sheet import Line


def ours(line: Line) -> str:
    """Our numbers: mean ± std and how many seeds; of scales the geometric mean and the range."""
    if line.texts:
        told = list(dict.fromkeys(line.texts))
        shown = told[0] if len(told) == 1 else ", ".join(line.texts)
        return f"{number(line.values[0], line.kind)}: {shown}" if line.values else shown
    if not line.values:
        return "-"
    if any(not math.isfinite(value) for value in line.values):
        return ", ".join(number(value, line.kind) for value in line.values)
    if len(line.values) == 1:
        return number(line.values[0], line.kind)
    if line.kind in LOGARITHMIC and min(line.values) > 0:
        centre = math.exp(fmean(math.log(value) for value in line.values))
        ends = " to ".join(number(end, line.kind) for end in (min(line.values), max(line.values)))
        return f"{number(centre, line.kind)} ({ends})"
    if line.kind in ("count", "epoch"):
        return ", ".join(number(value, line.kind) for value in line.values)
    return f"{_with_spread(fmean(line.values), stdev(line.values), line.kind)} ({len(line.values)} seeds)"


def _with_spread(centre: float, spread: float, kind: Kind) -> str:
    """A mean and its spread, the mean to the digits of a spread that the usual ones would round away."""
    if kind == "share" and 0 < spread < 5e-4:
        return f"{100 * centre:.2f} % ± {100 * spread:.2f}"
    if kind in ("cosine", "size") and 1e-6 < spread < 1e-3 <= abs(centre):
        places = 1 - math.floor(math.log10(spread))
        return f"{centre:+.{places}f} ± {spread:.{places}f}"
    return f"{number(centre, kind)} ± {number(spread, kind, sign=False).removesuffix(' %')}"


def theirs(figure: Figure | None, kind: Kind) -> str:
    """A published figure."""
    if figure is None:
        return "-"
    if figure.never:
        return "never"
    if figure.flags is not None:
        return " ".join(figure.flags) or "none"
    if figure.values:
        return ", ".join(printed(value, kind) for value in figure.values)
    if figure.high is not None:
        high = printed(figure.high, kind)
        return f"at most {high}" if figure.low is None else f"{printed(figure.low, kind)} to {high}"
    spread = "" if figure.std is None else f" ± {printed(figure.std, kind, sign=False).removesuffix(' %')}"
    if figure.mean is None:
        return "-"
    said = printed(figure.mean, kind) + spread
    if figure.images == USUAL:
        return said
    return f"{figure.mean * figure.images / USUAL:.2g} ({said} at N = {figure.images:,})"


def printed(value: float, kind: Kind, *, sign: bool = True) -> str:
    """A published number with its own digits and no others, but for a final 0, which the data file does not keep."""
    if kind == "share":
        return f"{(Decimal(repr(value)) * 100).normalize():f} %"
    return f"{value:+g}" if kind == "cosine" and sign and value else f"{value:g}"


def difference(line: Line) -> str:
    """Ours minus published, and in standard errors where a spread is known."""
    if line.difference is None or not math.isfinite(line.difference):
        return ""
    size = {"share": f"{100 * line.difference:+.1f} pp", "scale": f"{line.difference:+.2f} decades"}
    size["spread"] = size["scale"]
    shown = size.get(line.kind, f"{line.difference:+.3g}")
    return shown if line.errors is None else f"{shown}, {line.errors:+.1f} s.e."


def number(value: float, kind: Kind, *, sign: bool = True) -> str:
    """One number of a kind."""
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "not fired" if kind == "epoch" else "infinite"
    if kind == "share":
        return f"{100 * value:.1f} %"
    if kind == "points":
        return f"{value:+.1f}" if sign else f"{value:.1f}"
    if kind in ("count", "epoch"):
        return f"{value:.3g}"
    if kind in ("cosine", "size") and abs(value) >= 1e-3:
        return f"{value:+.3f}" if sign else f"{value:.3f}"
    return f"{value:.2g}" if value and not 1e-2 <= abs(value) < 1e4 else f"{value:.3g}"


def counted(lines: tuple[Line, ...]) -> str:
    """How many lines end how."""
    found = {outcome: sum(line.outcome is outcome for line in lines) for outcome in Outcome}
    return ", ".join(f"{outcome}: {count}" for outcome, count in found.items() if count)
