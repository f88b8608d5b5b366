"""Series of charts: a method has one colour and one mark on every page and in every figure.

A variant of a method (other options, a penalty) has the method's colour, another mark and a line of long dashes. A
control has the colour and the mark of what it is a control of, hollow and with a line of short dashes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from zlib import crc32

from creditscope.records.labels import flatten, label
from creditscope.report.charts.theme import LIGHT, SHAPES
from creditscope.report.views import AuditView
from creditscope.terminal import one_line

COLOURS = len(LIGHT.series)
# Methods that are often seen together: their looks differ. Any other name has a place that follows from its letters.
FIRST = (
    "bp",
    "dfa",
    "fa",
    "state_bridge",
    "credit_bridge",
    "fa_weights",
    "ep",
    "predictive_coding",
    "target_prop",
)


NAME = 60  # letters of a name in a chart; the converter of charts hangs on very long ones


@lru_cache(maxsize=4096)
def chart_name(name: str) -> str:
    r"""A name as a chart can show it: one line, printable, cut where it is long; names that differ stay apart.

    >>> chart_name("two\nlines")
    'two lines'
    """
    line = one_line(name, 10 * NAME)
    return line if len(line) <= NAME else f"{line[: NAME - 10]}… {crc32(name.encode(errors='replace')):08x}"


@dataclass(frozen=True, slots=True)
class Look:
    """A colour of the palette, a shape, whether the shape is hollow (a control) and the line dashed (a variant)."""

    colour: int
    shape: int
    hollow: bool = False
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """The points of one label, and how they look."""

    name: str
    look: Look


Group = tuple[Series, ...]


def looks(views: Sequence[AuditView]) -> Mapping[str, Look]:
    """The look of every label: that of its method; a mark that is taken gives way to the next one, never the colour."""
    found: dict[str, Look] = {}
    for view in sorted(views, key=_rank):
        if view.label not in found:
            wanted = _wanted(view)
            others = (replace(wanted, shape=(wanted.shape + step) % len(SHAPES)) for step in range(len(SHAPES)))
            found[view.label] = next((look for look in others if look not in found.values()), wanted)
    return found


def _rank(view: AuditView) -> tuple[bool, bool, bool]:
    """Methods before controls, known methods before others, a method before its variants."""
    method, variant = _names(view)
    return view.is_control, method not in FIRST, variant != method


def _wanted(view: AuditView) -> Look:
    """The look that a view has where nothing else is shown."""
    method, variant = _names(view)
    place = FIRST.index(method) if method in FIRST else crc32(method.encode()) % (COLOURS * len(SHAPES))
    away = 0 if variant == method else 1 + crc32(variant.encode()) % (len(SHAPES) - 1)
    return Look(place % COLOURS, (place + away) % len(SHAPES), hollow=view.is_control, dashed=variant != method)


def _names(view: AuditView) -> tuple[str, str]:
    """The method, and the same with its options and penalty; an audit without a run has its label only."""
    if view.run is None:
        return view.label, view.label
    settings = flatten(view.run.spec)
    return str(settings.get("method", view.label)), label(settings | {"control": "none"})
