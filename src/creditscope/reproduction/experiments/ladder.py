"""Experiment 15: the ladder."""

from __future__ import annotations

from collections.abc import Iterator

from creditscope.reproduction.book import Book, Found
from creditscope.reproduction.experiments import experiment
from creditscope.reproduction.quantities import ACCURACY, Quantity
from creditscope.reproduction.sheet import Line, computed, lines

RUNGS = ("frozen", "ladder-1", "ladder-2", "ladder-3", "none")  # k = 0..4 trained blocks
RISE = Quantity("rise", "points from k = 0 to k = L", "points", lambda record: float("nan"))
BEST = Quantity("best_k", "best k", "count", lambda record: float("nan"))


@experiment("ladder", number=15, question="Does accuracy rise with the number of blocks that learn?")
def ladder(book: Book) -> Iterator[Line]:
    """Accuracy for every k, then the rise and the best k per seed."""
    for method in ("bp", "fa", "dfa"):
        rungs = [book.find("ladder", {"method": method, "control": control}) for control in RUNGS]
        for k, control in enumerate(RUNGS):
            where = {"method": method, "control": control}
            yield from lines(book, "ladder", f"{method}, k = {k}", where, (ACCURACY,))
        seeds_run = dict.fromkeys(spec.seed for rung in rungs for spec in rung.specs.values())
        climbs = {seed: climb for seed in seeds_run if (climb := _climb(rungs, seed))}
        keys = [key for rung in rungs for key in rung.records if rung.specs[key].seed in climbs]
        rises = [100 * (climb[-1] - climb[0]) for climb in climbs.values()]
        best = [float(climb.index(max(climb))) for climb in climbs.values()]
        seeds = tuple(climbs)
        yield computed("ladder", method, RISE, rises, keys, seeds=seeds)
        yield computed("ladder", method, BEST, best, keys, seeds=seeds)


def _climb(rungs: list[Found], seed: int) -> list[float]:
    """Accuracies of one seed from k = 0 to L; empty while a rung is missing."""
    found = [record.accuracy for rung in rungs for key, record in rung.records.items() if rung.specs[key].seed == seed]
    return found if len(found) == len(rungs) else []
