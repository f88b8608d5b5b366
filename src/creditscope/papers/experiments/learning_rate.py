"""Experiment 18, our own: DFA's first epochs at three learning rates, beside the published ones."""

from __future__ import annotations

from collections.abc import Iterator

from creditscope.papers.book import Book
from creditscope.papers.experiments import experiment
from creditscope.papers.experiments.causal_controls import GROWING, SHUFFLED
from creditscope.papers.experiments.early_epochs import GRADIENTS, LAYER_0
from creditscope.papers.quantities import ACCURACY, FIRST_D1, FIRST_D2_LARGER, Quantity
from creditscope.papers.sheet import Line, lines

RATES = (1e-3, 5e-4, 2.5e-4)  # the stated one, and what it is halved to
# the experiment and the row that a figure was published in, and whether the labels were random there
PUBLISHED: tuple[tuple[str, str, bool, tuple[Quantity, ...]], ...] = (
    ("early_epochs", "index input", False, (*GRADIENTS, LAYER_0)),
    ("temporal", "resmlp, dfa, index input", False, (FIRST_D1, FIRST_D2_LARGER)),
    ("penalty", "dfa", False, (ACCURACY,)),
    ("causal_controls", SHUFFLED, True, GROWING),
)


@experiment("learning_rate", number=18, question="Does the learning rate account for DFA's published first epochs?")
def learning_rate(book: Book) -> Iterator[Line]:
    """The figures of four experiments that the published DFA reached early, or within our number of epochs."""
    for rate in RATES:
        yield from at_rate(book, rate)


def at_rate(book: Book, rate: float) -> Iterator[Line]:
    """The lines of one learning rate, each beside what was published in another experiment."""
    for name, row, shuffled, quantities in PUBLISHED:
        where = {"learning_rate": rate, "random_labels": shuffled}
        called = f"index input, rate {rate:g}" + (", random labels" if shuffled else "")
        for line in lines(book, name, row, where, quantities, study="learning_rate"):
            yield line.model_copy(update={"row": called})
