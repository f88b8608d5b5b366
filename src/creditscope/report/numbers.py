"""How is a number written, so that a reader sees its size at once and nothing that is not a number looks like one?"""

from __future__ import annotations

import math
from statistics import fmean, stdev

from creditscope.verdict import Finding, Limit

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
    return f"{'>' if bound.fires == 'above' else '<'} {bound.at:g}{UNITS[bound.unit]}"


def value(finding: Finding) -> str:
    """The number of a finding with its unit."""
    found = finding.value
    if found is not None and finding.limit.at == 0 and found.is_integer():
        return f"{found:,.0f}"  # a count
    return number(found) + (UNITS[finding.limit.unit] if found is not None else "")


def distance(finding: Finding) -> str:
    """How far a finding lies from its limit, and on which side; empty where there is no distance."""
    margin = finding.margin
    if margin is None or not math.isfinite(margin) or finding.limit.at == 0:
        return ""
    unit = "" if finding.limit.unit == "absolute" else f" {finding.limit.unit}"
    return f"{number(abs(margin))}{unit} {'past it' if margin < 0 else 'to spare'}"


def interval(finding: Finding) -> str:
    """The 95 % interval of a finding in words; empty if none was computed."""
    if finding.interval is None:
        return ""
    low, high = (number(end) for end in finding.interval)
    return f"95 % interval {low} to {high}{UNITS[finding.limit.unit]}"


def count(amount: int, one: str, many: str = "") -> str:
    """A whole number of things, singular where it is one."""
    return f"{amount:,} {one if amount == 1 else many or one + 's'}"


def accuracy(shares: tuple[float, ...]) -> str:
    """An accuracy in per cent; over several seeds the mean ± standard deviation (ddof 1)."""
    percent = [100 * share for share in shares]
    if len(percent) == 1:
        return f"{percent[0]:.1f} %"
    return f"{fmean(percent):.1f} ± {stdev(percent):.1f} % over {len(percent)} seeds"
