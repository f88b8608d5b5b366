"""Experiment 3: FA over depths."""

from __future__ import annotations

from collections.abc import Iterator

from creditscope.papers.book import Book
from creditscope.papers.experiments import experiment
from creditscope.papers.quantities import ACCURACY, DEEP_GAMMA, DEEP_GAMMA_INEXACT
from creditscope.papers.sheet import Line, lines


@experiment("depth_scan", number=3, question="Is FA's deep alignment more than its one exact layer?")
def depth_scan(book: Book) -> Iterator[Line]:
    """Both widths, every depth."""
    for width, depths in ((512, (2, 4, 6, 8, 12)), (256, (2, 4, 8, 12))):
        for depth in depths:
            where = {"network.d": width, "network.depth": depth}
            row = f"d {width}, L {depth}"
            yield from lines(book, "depth_scan", row, where, (ACCURACY, DEEP_GAMMA, DEEP_GAMMA_INEXACT))
