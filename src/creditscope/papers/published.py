"""Schema of a paper's `published.json`: its figures, and how its runs were trained."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from creditscope.batch import PUBLISHED_BATCH
from creditscope.errors import BadFile
from creditscope.reading import read_text
from creditscope.records.labels import counted
from creditscope.records.record import Record

T = TypeVar("T")


class PublishedFigure(Record):
    """One published figure.

    mean, std    over `seeds` seeds; std is None where none was printed
    values       one per seed
    low, high    a printed range; without `low`, an upper bound
    never        an event that was reported not to happen
    flags        the flags of a verdict; `unmeasured` lists the flags that were not evaluated
    images       the batch whose mean loss a gradient norm refers to
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
    images: int = PUBLISHED_BATCH
    note: str = ""


class PublishedTraining(Record):
    """How the published runs of an experiment were trained; `epochs` is None where the paper does not say."""

    epochs: int | None = None
    seeds: str = ""
    note: str = ""

    @property
    def text(self) -> str:
        """The same in one line."""
        length = "" if self.epochs is None else counted(self.epochs, "epoch")
        trained = ", ".join(part for part in (length, self.seeds) if part)
        return "; ".join(part for part in (trained, self.note) if part)


class PublishedFigures(Record):
    """The whole data file: figures by experiment, row and quantity."""

    about: str
    settings: dict[str, PublishedTraining]
    figures: dict[str, dict[str, dict[str, PublishedFigure]]] = Field(default_factory=dict)

    def figure(self, experiment: str, row: str, quantity: str) -> PublishedFigure | None:
        """One figure; None if it was not published."""
        return self.figures.get(experiment, {}).get(row, {}).get(quantity)

    def training(self, experiment: str) -> PublishedTraining:
        """How an experiment was trained; empty where nothing was published."""
        return self.settings.get(experiment, PublishedTraining())


def read_data(path: Path, schema: TypeAdapter[T], title: str) -> T:
    """Read a data file of a paper; an unknown field or a value of the wrong type is refused."""
    text = read_text(path, title)
    try:
        return schema.validate_json(text)
    except ValidationError as error:
        raise BadFile(
            f"{path} does not follow its schema: {error}\n"
            "A number could be compared with the wrong figure. Correct the file."
        ) from error


def read_published(path: Path) -> PublishedFigures:
    """Read a paper's published figures."""
    return read_data(path, TypeAdapter(PublishedFigures), "The published figures")
