"""Experiment 11: decision utility."""

from __future__ import annotations

from collections.abc import Iterator

from creditscope.reproduction.book import Book
from creditscope.reproduction.experiments import experiment
from creditscope.reproduction.experiments.main_audit import METHODS
from creditscope.reproduction.quantities import Quantity
from creditscope.reproduction.sheet import Line, computed
from creditscope.reproduction.strategies import STRATEGIES

JUDGED = tuple(method for method in METHODS if method != "fa")  # the five of the published count
WALKED = Quantity("walked_back", "methods walked back on every seed, of 5", "count", lambda record: float("nan"))


@experiment("decision_utility", number=11, question="Which way of reporting walks back which method?")
def decision_utility(book: Book) -> Iterator[Line]:
    """One row for every way of reporting; FA is named, but not counted, as it was not among the published five."""
    rows = {method: book.audited("decision_utility", {"method": method}) for method in METHODS}
    absent = [method for method in JUDGED if rows[method] is None]
    for name in STRATEGIES:
        back = [method for method in METHODS if walked_back(book, method, name)]
        count = [float(sum(method in JUDGED for method in back))]
        keys = [seed.key for row in rows.values() if row is not None for seed in row.seeds]
        note = f"not run: {', '.join(absent)}" if absent else ""
        told = (", ".join(back) or "nobody",)
        yield computed("decision_utility", name, WALKED, [] if absent else count, keys, texts=told, note=note)


def walked_back(book: Book, method: str, strategy: str) -> bool:
    """Whether a way of reporting walks a method back on every seed that was run."""
    row = book.audited("decision_utility", {"method": method})
    if row is None:
        return False
    records = {seed.key: book.record(seed.key) for seed in row.seeds}
    found = [STRATEGIES[strategy](seed, record) for seed in row.seeds if (record := records[seed.key]) is not None]
    return all(found)
