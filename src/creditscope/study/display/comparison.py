"""Comparisons of methods as text."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from creditscope.report.numbers import number
from creditscope.statistics.comparison import PairComparison
from creditscope.study.display.table import drawn, wrapped

if TYPE_CHECKING:
    from creditscope.study.comparison import Comparison

FOOTING = (
    "Differences in points, left minus right, with 95 % intervals over seeds and test images. P(better): a run of the "
    "left beats one of the right. p: two-sided, after Holm's correction over all pairs of a table."
)
UNBROKEN = ("difference", "P(better)", "p (Holm)")


def comparison_page(comparisons: Sequence[Comparison], width: int = 120) -> str:
    """A table for every setting, and for open pairs how many seeds would decide them."""
    parts = [part for comparison in comparisons for part in _parts(comparison, width)]
    return "\n\n".join([*parts, wrapped(FOOTING, width)])


def _parts(comparison: Comparison, width: int) -> list[str]:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for heading in (comparison.by, "difference", "95 % interval", "per seed", "P(better)", "p (Holm)", "decided"):
        table.add_column(heading, overflow="fold", no_wrap=heading in UNBROKEN)
    for pair in comparison.pairs:
        table.add_row(*_cells(pair))
    return [*([comparison.setting] if comparison.setting else []), drawn(table, width)]


def _cells(pair: PairComparison) -> tuple[str, ...]:
    ends = "-" if pair.interval is None else " to ".join(f"{100 * end:+.1f}" for end in pair.interval)
    if pair.decided:
        decided = "yes"
    elif pair.more is not None:
        decided = f"no; {pair.more} more seed{'s' if pair.more > 1 else ''} would decide it"
    else:
        decided = "no; not even a thousand seeds would" if len(pair.differences) != 1 else "no; single seed"
    return (
        f"{pair.left} - {pair.right}",
        f"{100 * pair.difference:+.1f}",
        ends,
        " ".join(f"{100 * one:+.1f}" for one in pair.differences) or "-",
        number(pair.improvement),
        number(pair.adjusted),
        decided,
    )


def as_json(comparisons: Sequence[Comparison]) -> str:
    """A JSON list with one object per setting; NaN is null, as JSON has none."""
    plain = [
        {"by": one.by, "setting": one.setting, "pairs": [{k: _plain(v) for k, v in row.items()} for row in one.rows()]}
        for one in comparisons
    ]
    return json.dumps(plain, indent=1, ensure_ascii=False)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
