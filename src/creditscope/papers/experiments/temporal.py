"""Experiment 8: when the diagnostics fire."""

from __future__ import annotations

from collections.abc import Iterator

from creditscope.papers.book import Book
from creditscope.papers.experiments import experiment
from creditscope.papers.quantities import ACCURACY, FIRST_D1, FIRST_D2, FIRST_D2_LARGER
from creditscope.papers.sheet import Line, figure, lines
from creditscope.study.declaration import Value

NETWORKS: dict[str, dict[str, Value]] = {
    "resmlp": {"network": "resmlp", "network.terminal_ln": True},
    "vit_mini": {"network": "vit_mini"},
    "resmlp without terminal LN": {"network": "resmlp", "network.terminal_ln": False},
}
METHODS: dict[str, dict[str, Value]] = {
    "dfa, index input": {"method": "dfa", "method.index": "input"},
    "dfa, index output": {"method": "dfa", "method.index": "output"},
    "bp": {"method": "bp"},
}


@experiment("temporal", number=8, question="After which epoch does each diagnostic first fire?")
def temporal(book: Book) -> Iterator[Line]:
    """Three networks, DFA and BP; on the first DFA for both states that a block may hear.

    D2 at N = 1,024 stands where its published epochs are those of that batch, at which gradients are 8 times smaller.
    """
    for name, network in NETWORKS.items():
        for method in METHODS if name == "resmlp" else ("dfa", "bp"):
            where = {**network, **METHODS.get(method, {"method": method})}
            row = f"{name}, {method}"
            logged = (FIRST_D2_LARGER,) if figure("temporal", row, FIRST_D2_LARGER.name) is not None else ()
            yield from lines(book, "temporal", row, where, (FIRST_D1, FIRST_D2, *logged, ACCURACY))
