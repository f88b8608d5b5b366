"""Numbers, limits, intervals and accuracies as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from creditscope.verdict import Finding, Limit, Status

ABSENT = "-"
UNITS = {"points": " pp", "decades": "", "absolute": ""}


def number(value: float | None) -> str:
    """Three significant digits, two below 0.1; very large and very small numbers as powers of ten."""
    if value is None:
        return ABSENT
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"
    size = abs(value)
    if size == 0:
        return "0"
    if not 1e-3 <= size < 99_999.5:
        return f"{value:.1e}"
    if size >= 99.95:
        return f"{value:,.0f}"
    decimals = 1 if size >= 9.995 else 2 if size >= 0.9995 else 3
    return f"{value:.{decimals}f}" if size >= 0.09995 else f"{value:.2g}"


def limit(bound: Limit) -> str:
    """The firing side of a limit, for example '> 50'."""
    return f"{'>' if bound.fires == 'above' else '<'} {bound.text}{UNITS[bound.unit]}"


def firing_side(finding: Finding) -> str:
    """Where a finding fires; empty where its protocol sets no limit."""
    return "" if finding.status is Status.MEASURED else limit(finding.limit)


def value(finding: Finding) -> str:
    """The number of a finding with its unit."""
    measured = finding.value
    if measured is None:
        return ABSENT
    if finding.limit.at == 0 and measured.is_integer():
        return f"{measured:,.0f}"  # a count
    return number(measured) + UNITS[finding.limit.unit]


def distance(finding: Finding) -> str:
    """How far a finding lies from its limit, and on which side; empty where there is no distance."""
    margin = finding.margin
    if margin is None or not math.isfinite(margin) or finding.limit.at == 0:
        return ""
    unit = finding.limit.unit
    size = times(abs(margin)) if unit == "decades" else number(abs(margin)) + UNITS[unit]
    safe = {"above": "below", "below": "above"}[finding.limit.fires]
    return f"{size} {'beyond' if margin < 0 else safe} the limit"


def times(decades: float) -> str:
    """A ratio of so many decades as a factor of two digits: 1.2x, 37x, 4,500x, 2.0e7x."""
    if decades >= 5:
        whole = math.floor(decades)
        return f"{10 ** (decades - whole):.1f}e{whole}x"
    ratio = 10**decades
    return f"{ratio:.1f}x" if ratio < 9.95 else f"{float(f'{ratio:.2g}'):,.0f}x"


def interval(finding: Finding) -> str:
    """The 95 % interval of a finding in words; empty if none was computed."""
    if finding.interval is None:
        return ""
    low, high = (number(end) for end in finding.interval)
    return f"95 % interval {low} to {high}{UNITS[finding.limit.unit]}"


def accuracy(shares: tuple[float, ...]) -> str:
    """An accuracy in per cent; over several seeds the mean ± standard deviation (ddof 1)."""
    several = f" over {len(shares)} seeds" if len(shares) > 1 else ""
    return f"{per_cent(shares)} %{several}"


def per_cent(shares: Sequence[float]) -> str:
    """Shares in per cent without the sign: one number, or mean ± standard deviation (ddof 1)."""
    percent = [100 * share for share in shares]
    mean = f"{fmean(percent):.1f}"
    spread = stdev(percent) if len(percent) > 1 and all(map(math.isfinite, percent)) else math.nan
    return mean if len(percent) == 1 else f"{mean} ± {spread:.1f}"
