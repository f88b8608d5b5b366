"""Experiment 17, our own: the normalisation of the credit."""

from __future__ import annotations

from collections.abc import Iterator

from creditscope.papers.book import Book
from creditscope.papers.experiments import experiment
from creditscope.papers.quantities import ACCURACY, DEEPEST_GRADIENT, DEEPEST_STATE, FIRST_D1, FIRST_D2, GROWTH
from creditscope.papers.sheet import Line, lines


@experiment(
    "credit_normalisation", number=17, question="Does the size of the credit decide whether the stream explodes?"
)
def credit_normalisation(book: Book) -> Iterator[Line]:
    """DFA and FA with the credit divided by each sample's rms, by the batch's, or left as it is."""
    for method in ("dfa", "fa"):
        for how in ("sample", "batch", "none"):
            where = {"method": method, "method.normalisation": how}
            found = (ACCURACY, DEEPEST_STATE, GROWTH, DEEPEST_GRADIENT, FIRST_D1, FIRST_D2)
            yield from lines(book, "credit_normalisation", f"{method}, {how}", where, found)
