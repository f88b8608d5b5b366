"""Experiment 10: causal controls."""

from __future__ import annotations

from collections.abc import Iterator

from creditscope.papers.book import Book
from creditscope.papers.experiments import experiment
from creditscope.papers.quantities import ACCURACY, DEEPEST_GRADIENT, DEEPEST_STATE, GROWTH, Quantity, at_epoch
from creditscope.papers.sheet import Line, lines
from creditscope.study.declaration import Value

PLAIN: dict[str, Value] = {"network.residual": True, "network.terminal_ln": True, "random_labels": False}
ROWS: dict[str, dict[str, Value]] = {
    "as it is": PLAIN,
    **{
        f"no residual addition, w2 std {std}": {**PLAIN, "network.residual": False, "network.w2_std": std}
        for std in (0.1, 0.2, 0.5)
    },
    **{
        f"random labels, index {index}": {**PLAIN, "random_labels": True, "method.index": index}
        for index in ("input", "output")
    },
    "no terminal LN": {**PLAIN, "network.terminal_ln": False},
}
SHUFFLED = "random labels, index input"  # the published form
GROWING = tuple(at_epoch("h_L", "‖h_L‖", "scale", epoch, lambda row: row.hidden_norms[-1]) for epoch in (1, 2, 3))

BEFORE = Quantity("h_L_0", "‖h_L‖ before training", "scale", DEEPEST_STATE.read)


@experiment("causal_controls", number=10, question="What makes DFA's stream explode?")
def causal_controls(book: Book) -> Iterator[Line]:
    """DFA with one cause removed at a time."""
    for row, where in ROWS.items():
        more = GROWING if where["random_labels"] else ()
        found = (ACCURACY, DEEPEST_STATE, DEEPEST_GRADIENT, GROWTH, *more)
        yield from lines(book, "causal_controls", row, where, found)
        if row == SHUFFLED:
            yield from lines(book, "causal_controls", row, {"seed": 42}, (BEFORE,), study="random_init")
