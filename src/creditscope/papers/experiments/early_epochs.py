"""Experiment 7: the first epochs."""

from __future__ import annotations

import math
from collections.abc import Iterator

from creditscope.papers.book import Book
from creditscope.papers.experiments import experiment
from creditscope.papers.profiles import lengths, valid_row
from creditscope.papers.quantities import (
    DEEPEST_GRADIENT,
    SURVIVES,
    Quantity,
    at_epoch,
    deep_gamma,
    gamma,
    layer_gamma,
)
from creditscope.papers.sheet import Line, lines
from creditscope.records.run import RunRecord

FIRST = tuple(
    quantity
    for epoch in (1, 2)
    for quantity in (
        at_epoch("gamma_0", "Γ at layer 0", "cosine", epoch, layer_gamma(0)),
        at_epoch("gamma_1", "Γ at layer 1", "cosine", epoch, layer_gamma(1)),
        at_epoch("gamma_deep", "deep Γ", "cosine", epoch, deep_gamma),
    )
)
GRADIENTS = tuple(at_epoch("g_L", "‖g_L‖ at N = 128", "scale", epoch, lambda row: row.d2) for epoch in (1, 2, 3, 4, 5))


@experiment("early_epochs", number=7, question="What is DFA's alignment while the reference is still valid?")
def early_epochs(book: Book) -> Iterator[Line]:
    """Both states that a block may hear: the history of the long runs, and the audit of the short ones."""
    short, long = lengths(book)
    for index in ("input", "output"):
        where = {"method.index": index, "epochs": long}
        yield from lines(book, "early_epochs", f"index {index}", where, (*FIRST, LAYER_0, *GRADIENTS))
        if index == "input":
            yield from lines(book, "early_epochs", f"index {index}", {"seed": 42}, (BEFORE,), study="random_init")
    for index in ("input", "output"):
        where, row = {"method.index": index, "epochs": short}, f"index {index}, {short} epochs, audited"
        yield from lines(book, "early_epochs", row, where, (DEEPEST_GRADIENT, *LAYERS, SURVIVES))


def _layer_0(record: RunRecord) -> float:
    row = valid_row(record)
    return math.nan if row is None else row.gamma[0]


LAYER_0 = Quantity("gamma_0", "Γ at layer 0, last valid epoch", "cosine", _layer_0)
BEFORE = Quantity("g_L_0", "‖g_L‖ at N = 128 before training", "scale", DEEPEST_GRADIENT.read)
LAYERS = tuple(gamma(layer) for layer in range(5))
