"""The accuracies that D3 compares: those of the method and of its frozen control, their seeds, and their source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from creditscope.auditing.input_checks import checked_accuracies
from creditscope.errors import InvalidInput
from creditscope.provenance import Source


@dataclass(frozen=True, slots=True)
class RecordedAccuracies:
    """Accuracies read from the records of runs, with the seeds of these runs."""

    values: tuple[float, ...]
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of D3: accuracies, one per seed, where they come from, and the seeds if they are named."""

    values: tuple[float, ...] | None = None
    source: Source | None = None
    seeds: tuple[int, ...] = ()

    def measured(self, *values: float) -> Arm:
        """The same side with accuracies that were measured on the batches of the audit."""
        return replace(self, values=values, source=Source.MEASURED)


Given = float | Sequence[float] | RecordedAccuracies | None


def arms(
    accuracy: Given,
    control_accuracy: Given,
    seeds: Sequence[int] | None,
    control_seeds: Sequence[int] | None,
    controls: int,
) -> tuple[Arm, Arm]:
    """Both sides as the caller gave them, checked; `controls` networks will be measured beside the audited one."""
    if controls and (accuracy is not None or control_accuracy is not None):
        extra = "accuracy" if accuracy is not None else "control_accuracy"
        raise InvalidInput(
            f"{extra}= and control= were both given.\n"
            "The margin would mix a number that was typed in with answers to these images. Leave one of them out."
        )
    return _arm(accuracy, seeds, "accuracy", 1), _arm(control_accuracy, control_seeds, "control_accuracy", controls)


def _arm(given: Given, seeds: Sequence[int] | None, what: str, measured: int) -> Arm:
    """One side; `measured` accuracies follow where none were given."""
    if isinstance(given, RecordedAccuracies):
        return Arm(given.values, Source.RECORDS, given.seeds)
    values = checked_accuracies(given, what)
    named = checked_seeds(seeds, "seeds" if what == "accuracy" else "control_seeds")
    count = measured if values is None else len(values)
    if named and len(named) != count:
        raise InvalidInput(
            f"{len(named)} seeds are named for {count or 'no'} accuracies ({what}).\n"
            "They could not be assigned to each other. Name one seed for every accuracy, in the same order."
        )
    return Arm(values, None if values is None else Source.TYPED, named)


def checked_seeds(seeds: Any, what: str) -> tuple[int, ...]:
    """The seeds as whole numbers, each named once; none where none were given."""
    if seeds is None:
        return ()
    named = tuple(seeds) if isinstance(seeds, Sequence) and not isinstance(seeds, str) else (seeds,)
    if any(isinstance(seed, bool) or not isinstance(seed, int) for seed in named):
        raise InvalidInput(
            f"{what} = {seeds!r} are not whole numbers.\n"
            "Seeds of both sides could not be paired. Pass the seeds that the runs were started with."
        )
    if len(set(named)) < len(named):
        raise InvalidInput(
            f"{what} = {list(named)} names a seed twice.\n"
            "A repeated run would count as an independent one, and the interval would be too narrow. Name each once."
        )
    return named


def paired(trained: Arm, control: Arm) -> tuple[Arm, bool | None]:
    """The control in the order of the trained seeds, and whether both have the same; None where they are not named."""
    if not trained.seeds or not control.seeds:
        return control, None
    if set(trained.seeds) != set(control.seeds) or control.values is None:
        return control, False
    by_seed = dict(zip(control.seeds, control.values, strict=True))
    return Arm(tuple(by_seed[seed] for seed in trained.seeds), control.source, trained.seeds), True
