"""Experiment 6: fresh feedback as a null."""

from __future__ import annotations

from collections.abc import Iterator

from creditscope.papers.book import Book
from creditscope.papers.experiments import experiment
from creditscope.papers.quantities import DEEP_GAMMA, NULL_MEAN, NULL_STD, Z
from creditscope.papers.sheet import Line, lines


@experiment("fresh_feedback", number=6, question="Does feedback that never trained the network align with it too?")
def fresh_feedback(book: Book) -> Iterator[Line]:
    """DFA with penalty 1e-2: deep Γ, and what 20 fresh draws give."""
    yield from lines(book, "fresh_feedback", "dfa, penalty 0.01", {}, (DEEP_GAMMA, NULL_MEAN, NULL_STD, Z))
