"""Experiment 13: an untrained network."""

from __future__ import annotations

from collections.abc import Iterator

from creditscope.papers.book import Book
from creditscope.papers.experiments import experiment
from creditscope.papers.quantities import DEEPEST_GRADIENT, DEEPEST_STATE, DRIFT, GROWTH
from creditscope.papers.sheet import Line, flag_line, lines


@experiment("random_init", number=13, question="Is the audit silent on an untrained network?")
def random_init(book: Book) -> Iterator[Line]:
    """One row."""
    yield from lines(book, "random_init", "untrained", {}, (DEEPEST_STATE, DEEPEST_GRADIENT, GROWTH, DRIFT))
    yield flag_line(book, "random_init", "untrained", {})
