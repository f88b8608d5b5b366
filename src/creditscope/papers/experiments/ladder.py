"""Experiment 15: the ladder."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from creditscope.papers.book import Book, Found
from creditscope.papers.experiments import experiment
from creditscope.papers.quantities import ACCURACY, Quantity
from creditscope.papers.sheet import Line, computed, length_of, lines

RUNGS = ("frozen", "ladder-1", "ladder-2", "ladder-3", "none")  # k = 0..4 trained blocks
RISE = Quantity("rise", "points from k = 0 to k = L", "points")
BEST = Quantity("best_k", "best k", "count")


@experiment("ladder", number=15, question="Does accuracy rise with the number of blocks that learn?")
def ladder(book: Book) -> Iterator[Line]:
    """Accuracy for every k, then per seed the rise, which needs both ends only, and the best k, which needs all."""
    for method in ("bp", "fa", "dfa"):
        rungs = [book.find("ladder", {"method": method, "control": control}) for control in RUNGS]
        for k, control in enumerate(RUNGS):
            where = {"method": method, "control": control}
            yield from lines(book, "ladder", f"{method}, k = {k}", where, (ACCURACY,))
        yield _over_seeds(method, RISE, [rungs[0], rungs[-1]], lambda climb: 100 * (climb[-1] - climb[0]))
        yield _over_seeds(method, BEST, rungs, lambda climb: float(climb.index(max(climb))))


def _over_seeds(method: str, quantity: Quantity, rungs: list[Found], read: Callable[[list[float]], float]) -> Line:
    """A number of every seed that has a run on each of these rungs."""
    seeds = dict.fromkeys(spec.seed for rung in rungs for spec in rung.specs.values())
    climbs = {seed: climb for seed in seeds if (climb := _climb(rungs, seed))}
    keys = [key for rung in rungs for key in rung.records if rung.specs[key].seed in climbs]
    values = [read(climb) for climb in climbs.values()]
    length = length_of(spec for rung in rungs for spec in rung.specs.values())
    return computed("ladder", method, quantity, values, keys, seeds=tuple(climbs), epochs=length)


def _climb(rungs: list[Found], seed: int) -> list[float]:
    """Accuracies of one seed on these rungs; empty while one of them is missing."""
    found = [record.accuracy for rung in rungs for key, record in rung.records.items() if rung.specs[key].seed == seed]
    return found if len(found) == len(rungs) else []
