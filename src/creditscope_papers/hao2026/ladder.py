"""The ladder: accuracy by the number of blocks that learn."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from creditscope.papers.archive import RunArchive, SelectedRuns
from creditscope.papers.paper import RunGroup
from creditscope.papers.quantities import ACCURACY, Quantity
from creditscope.papers.tables import ComparisonRow, RunKeys, aggregate_row, common_length

RUNGS = ("frozen", "ladder-1", "ladder-2", "ladder-3", "none")  # k = 0..4 trained blocks
RISE = Quantity("rise", "points from k = 0 to k = L", "points")
BEST = Quantity("best_k", "best k", "count")


def ladder(archive: RunArchive) -> Iterator[RunGroup | ComparisonRow]:
    """Accuracy for every k, then per seed the rise, which needs both ends only, and the best k, which needs all."""
    for method in ("bp", "fa", "dfa"):
        rungs = [archive.select("ladder", {"method": method, "control": control}) for control in RUNGS]
        for k, control in enumerate(RUNGS):
            yield RunGroup(f"{method}, k = {k}", {"method": method, "control": control}, (ACCURACY,))
        ends = [rungs[0], rungs[-1]]
        yield _over_seeds(archive, method, RISE, ends, lambda accuracies: 100 * (accuracies[-1] - accuracies[0]))
        yield _over_seeds(archive, method, BEST, rungs, lambda accuracies: float(accuracies.index(max(accuracies))))


def _over_seeds(
    archive: RunArchive,
    method: str,
    quantity: Quantity,
    rungs: list[SelectedRuns],
    read: Callable[[list[float]], float],
) -> ComparisonRow:
    """A number of every seed that has a run on each of these rungs."""
    seeds = dict.fromkeys(spec.seed for rung in rungs for spec in rung.specs.values())
    complete = {seed: accuracies for seed in seeds if (accuracies := _accuracies(rungs, seed))}
    keys = [key for rung in rungs for key in rung.records if rung.specs[key].seed in complete]
    length = common_length(spec for rung in rungs for spec in rung.specs.values())
    runs = RunKeys(keys, seeds=tuple(complete), epochs=length)
    figure = archive.figure("ladder", method, quantity.name)
    return aggregate_row(figure, method, quantity, [read(accuracies) for accuracies in complete.values()], runs)


def _accuracies(rungs: list[SelectedRuns], seed: int) -> list[float]:
    """Accuracies of one seed on these rungs; empty while one of them is missing."""
    known = [record.accuracy for rung in rungs for key, record in rung.records.items() if rung.specs[key].seed == seed]
    return known if len(known) == len(rungs) else []
