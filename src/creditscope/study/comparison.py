"""Comparison of methods: compare() for accuracies and experiments, compare_rows() for the methods of a study."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from creditscope.arguments import as_count, check_flags
from creditscope.errors import InvalidInput, UnknownName
from creditscope.records.experiment import ExperimentReport
from creditscope.records.frame import data_frame
from creditscope.records.labels import PARTS, varied, written
from creditscope.registry import unknown
from creditscope.statistics.comparison import PairComparison, compare_all
from creditscope.statistics.shares import checked_shares
from creditscope.study.tables import AuditRow
from creditscope.terminal import one_line

Method = ExperimentReport | Mapping[int, float] | Sequence[float]
APART = 10**9  # between the invented seeds of two unmatched lists
METHOD = ("method", "penalty")  # what makes a method, with its options


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every pair of methods, or of other levels, in one setting.

    by       what is compared: "method", or any setting of a run
    setting  what all of them have in common, where a study has several settings
    """

    pairs: tuple[PairComparison, ...]
    by: str = "method"
    setting: str = ""

    def rows(self) -> list[dict[str, Any]]:
        """One row per pair, in percentage points."""
        return [_row(pair) for pair in self.pairs]

    def to_frame(self) -> Any:
        """A data frame of pandas or polars with one row per pair."""
        return data_frame(self.rows())

    def __str__(self) -> str:
        from creditscope.study.display.comparison import comparison_page

        return comparison_page([self])


def compare(
    methods: Mapping[str, Method],
    *,
    seeds: Sequence[int] | None = None,
    images: int | None = None,
    unmatched: bool = False,
) -> Comparison:
    """Compare methods over seeds: paired differences, intervals, probability of improvement, Holm's correction.

    methods    by name: accuracies by seed, an `ExperimentReport`, or a list of accuracies in the order of `seeds`
    images     test images behind each accuracy; known for experiments
    unmatched  whether methods without a common seed, or with lists of unnamed seeds, are compared all the same

    >>> import creditscope
    >>> bp, dfa = {0: 0.71, 1: 0.73, 2: 0.72}, {0: 0.31, 1: 0.30, 2: 0.33}
    >>> (pair,) = creditscope.compare({"bp": bp, "dfa": dfa}, images=1000).pairs
    >>> pair.left, pair.right, pair.decided, round(100 * pair.difference, 1), pair.improvement
    ('bp', 'dfa', True, 40.7, 1.0)
    """
    if not isinstance(methods, Mapping) or len(methods) < 2:
        raise InvalidInput(
            "compare needs at least two methods, by name.\n"
            "There is no pair to compare. Pass {'bp': {0: 0.71, 1: 0.73}, 'dfa': {0: 0.31, 1: 0.30}}."
        )
    check_flags(unmatched=unmatched)
    images = _checked_images(images)
    _check_seeds(seeds)
    known = {_images(method) for method in methods.values()} - {None}
    if len(known) > 1:
        raise InvalidInput(
            f"The experiments answered different numbers of images: {', '.join(map(str, sorted(known, key=str)))}.\n"
            "Their accuracies are not of the same test set. Run them on the same batches."
        )
    by_seed = {
        str(name): _by_seed(name, method, seeds, index if unmatched else None)
        for index, (name, method) in enumerate(methods.items())
    }
    _check_common(by_seed, unmatched)
    return Comparison(compare_all(by_seed, images if images is not None else next(iter(known), None)))


def _checked_images(images: Any) -> int | None:
    """The number of test images, None if it is not known."""
    count = None if images is None else as_count("images", images)
    if count == 0:
        raise InvalidInput("images = 0: no accuracy is that of no images.\nPass the number of test images.")
    return count


def _check_seeds(seeds: Any) -> None:
    """Refuse seeds that are not whole numbers, or are named twice."""
    if seeds is None:
        return
    if not isinstance(seeds, Sequence) or any(type(seed) is not int for seed in seeds) or len({*seeds}) < len(seeds):
        raise InvalidInput(
            f"seeds = {one_line(repr(seeds))} is not a list of whole numbers, each named once.\n"
            "Accuracies could not be paired by them. Pass the seeds that the runs were started with."
        )


def _images(method: Method) -> int | None:
    return method.runs[0].images if isinstance(method, ExperimentReport) else None


def _by_seed(name: str, method: Method, seeds: Sequence[int] | None, place: int | None) -> dict[int, float]:
    """The accuracies of a method by seed; those of an unmatched list get seeds that only this `place` has."""
    if isinstance(method, ExperimentReport):
        return dict(zip(method.seeds, method.accuracy(), strict=True))
    if isinstance(method, Mapping):
        shares = checked_shares(method.values(), f"the accuracy of {name}", nan=True)
        values = dict(zip(method, shares, strict=True))
    else:
        given: Any = method
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise InvalidInput(
                f"The accuracies of {name} are {given!r}, neither numbers by seed nor a list of numbers.\n"
                "A single number has no spread over seeds. Pass {seed: accuracy, ...}, or a list with seeds=."
            )
        if seeds is None and place is None:
            raise InvalidInput(
                f"The accuracies of {name} are a list, and seeds= does not name their seeds.\n"
                "Runs of different seeds would be paired. Pass seeds=[...], accuracies by seed, or unmatched=True."
            )
        shares = checked_shares(method, f"the accuracy of {name}", nan=True)
        own = range((place or 0) * APART, (place or 0) * APART + len(shares))
        named = own if seeds is None else seeds
        if len(named) != len(shares):
            raise InvalidInput(
                f"{len(shares)} accuracies of {name} for {len(named)} seeds.\n"
                "They could not be assigned to each other. Pass one accuracy per seed."
            )
        values = dict(zip(named, shares, strict=True))
    if not values:
        raise InvalidInput(f"{name} has no accuracy.\nIt cannot be compared. Leave it out.")
    return values


def _check_common(methods: Mapping[str, Mapping[int, float]], unmatched: bool) -> None:
    """Refuse methods that share no seed, unless that is wanted."""
    if unmatched:
        return
    names = list(methods)
    for index, left in enumerate(names):
        for right in names[index + 1 :]:
            if not methods[left].keys() & methods[right].keys():
                raise InvalidInput(
                    f"{left} and {right} have no seed in common.\n"
                    "Their differences per seed are not defined. Run the same seeds, or compare them unmatched."
                )


def compare_rows(
    rows: Sequence[AuditRow], by: str = "method", *, images: Mapping[str, int] | None = None, unmatched: bool = False
) -> list[Comparison]:
    """The trained rows of a study compared by a setting, apart for each recipe that they share.

    images  test images behind the accuracy of a run, by its key

    Levels that do not occur in the same recipes are refused: a difference would be one of recipes. `unmatched` compares
    all rows in one table all the same, each under its own label.
    """
    trained = [row for row in rows if row.spec.control == "none" and row.seeds]
    settings = [dict(row.spec.settings()) for row in trained]
    names = dict.fromkeys(name for run in settings for name in run)
    if by not in names:
        raise UnknownName(unknown("setting", by, list(names)))
    if by == "seed":
        raise InvalidInput(
            "Seeds cannot be compared: they are the repetitions over which everything else is compared.\n"
            "The difference of two seeds is chance. Choose another --by, as in --by method."
        )
    if unmatched:
        return [_of_rows({row.label: row for row in trained}, by, "", images or {}, unmatched=True)]
    recipes = [{name: value for name, value in run.items() if not _belongs(name, by)} for run in settings]
    groups: dict[str, dict[str, AuditRow]] = {}
    for row, run, recipe in zip(trained, settings, recipes, strict=True):
        level = row.label if by in METHOD else written(run.get(by))
        groups.setdefault(repr(sorted(recipe.items(), key=str)), {})[_level(run, by, level)] = row
    levels = {level for group in groups.values() for level in group}
    if len(levels) < 2:
        raise InvalidInput(
            f"The finished runs have one {by} only: {', '.join(levels) or 'none'}.\n"
            "There is no pair to compare. Run more of the study, or choose another --by."
        )
    differing = varied(recipes)
    if any(group.keys() != levels for group in groups.values()):
        raise InvalidInput(
            f"The recipes of these runs do not match: they differ in {', '.join(differing)} too, and not every {by} "
            "has every recipe.\nA difference would be one of recipes as well. Select runs with --only, or compare "
            "them all the same with --unmatched."
        )
    shared = dict(zip((repr(sorted(r.items(), key=str)) for r in recipes), recipes, strict=True))
    return [
        _of_rows(group, by, ", ".join(f"{name} {written(shared[key].get(name))}" for name in differing), images or {})
        for key, group in groups.items()
    ]


def _belongs(name: str, by: str) -> bool:
    """Whether a setting is part of what is compared, or the seed."""
    owner = name.partition(".")[0]
    if name == "seed" or name == by:
        return True
    if by in METHOD:
        return name in METHOD or owner == "method"
    return by in PARTS and owner == by


def _level(run: Mapping[str, Any], by: str, fallback: str) -> str:
    """The name of a level: the method with its options and penalty, or the value of the setting."""
    if by not in METHOD:
        own = [f"{k.partition('.')[2]}={written(v)}" for k, v in run.items() if by in PARTS and k.startswith(f"{by}.")]
        return f"{fallback}({', '.join(own)})" if own else fallback
    own = [f"{k.partition('.')[2]}={written(v)}" for k, v in run.items() if k.startswith("method.")]
    name = f"{run['method']}({', '.join(own)})" if own else str(run["method"])
    return f"{name} + penalty {written(run['penalty'])}" if run.get("penalty") else name


def _of_rows(
    rows: Mapping[str, AuditRow], by: str, setting: str, images: Mapping[str, int], *, unmatched: bool = False
) -> Comparison:
    """The pairs of one setting; their images are those of the run that had the fewest."""
    by_seed = {level: {seed.seed: seed.accuracy for seed in row.seeds} for level, row in rows.items()}
    _check_common(by_seed, unmatched)
    counts = [images[seed.key] for row in rows.values() for seed in row.seeds if seed.key in images]
    return Comparison(compare_all(by_seed, min(counts, default=None)), by, setting)


def _row(pair: PairComparison) -> dict[str, Any]:
    low, high = pair.interval or (math.nan, math.nan)
    return {
        "left": pair.left,
        "right": pair.right,
        "seeds": len(pair.seeds),
        "difference": 100 * pair.difference,
        "low": 100 * low,
        "high": 100 * high,
        "per_seed": [100 * one for one in pair.differences],
        "improvement": pair.improvement,
        "p": pair.p,
        "p_holm": pair.adjusted,
        "decided": pair.decided,
        "more_seeds": pair.more,
        "interval": pair.how,
    }
