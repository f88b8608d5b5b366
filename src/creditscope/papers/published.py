"""What was published?  Every figure is in `published.json` beside this file, and nowhere else."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from pydantic import Field

from creditscope.records.record import Record

USUAL = 128  # the batch size of most published gradient norms
LARGER = 1024  # and of the others


class Figure(Record):
    """One published figure.

    mean, std    over `seeds` seeds; std is None where none was printed
    values       one per seed
    low, high    a printed range; without `low`, an upper bound
    never        an event that was reported not to happen
    flags        the flags of a verdict; `unmeasured` are those that nobody looked at
    images       the batch whose mean loss a gradient's norm is of
    """

    mean: float | None = None
    std: float | None = None
    seeds: int = 3
    values: tuple[float, ...] = ()
    low: float | None = None
    high: float | None = None
    never: bool = False
    flags: tuple[str, ...] | None = None
    unmeasured: tuple[str, ...] = ()
    images: int = USUAL
    note: str = ""


Figures = dict[str, dict[str, Figure]]  # by row, then by quantity


class Published(Record):
    """The whole data file."""

    about: str
    source: str
    settings: dict[str, str]
    figures: dict[str, Figures] = Field(default_factory=dict)

    def epochs(self, experiment: str) -> int | None:
        """How long the published runs of an experiment were trained; None where that is not said."""
        said = re.match(r"(\d+) epochs", self.settings.get(experiment, ""))
        return int(said[1]) if said else None


@cache
def published() -> Published:
    """The published figures."""
    text = files("creditscope.papers").joinpath("published.json").read_text(encoding="utf-8")
    return Published.model_validate_json(text)
