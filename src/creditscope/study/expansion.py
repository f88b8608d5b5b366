"""The runs of a study: grid and additions without the exclusions, each with its controls, each run once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from pydantic import ValidationError

from creditscope.control import Control
from creditscope.errors import CreditscopeError, InvalidInput, OutOfResources, UnknownName
from creditscope.options import Option, options_of
from creditscope.records.labels import PARTS
from creditscope.registry import unknown
from creditscope.runs.spec import RunSpec, first_problem, registered
from creditscope.study.declaration import Axes, Budget, Settings, Study, refuse

MOST_RUNS = 10_000
INHERITED = "seed"  # the axis of the grid that an [[include]] shares unless it has its own


def expand(study: Study, budget: str | None = None, plugins: Sequence[str] = ()) -> list[RunSpec]:
    """The runs of a study under a budget, without duplicates."""
    if budget is not None and budget not in study.budgets:
        raise UnknownName(f"{study.source}: {unknown('budget', budget, study.budgets)}")
    size = study.budgets[budget] if budget is not None else Budget()
    grids = list(_grids(study, size))
    controls = study.controls if size.controls is None else size.controls
    _check_size(study, grids, controls)
    specs = [spec_of(study, settings, plugins) for grid in grids for settings in _combinations(grid)]
    kept = _without(study, specs, warn=budget is None)
    runs: dict[str, RunSpec] = {}
    for spec in kept:
        for run in (spec, *_controls(study, spec, controls)):
            runs.setdefault(run.model_dump_json(), run)
    if not runs:
        raise InvalidInput(
            f"{study.source} has no runs: everything is excluded.\nRemove an [[exclude]], or widen [grid]."
        )
    return list(runs.values())


def _grids(study: Study, size: Budget) -> Iterator[Axes]:
    """The grid, then each addition, as axes; the settings of the budget replace those of all of them."""
    fixed: Axes = {key: (value,) for key, value in study.fixed.items()}
    shared: Axes = {INHERITED: study.grid[INHERITED]} if INHERITED in study.grid else {}
    if size.include:
        for added in size.include:
            yield {**fixed, **shared, **size.settings, **added}
        return
    if study.grid or not study.include:
        yield {**fixed, **study.grid, **size.settings}
    for added in study.include:
        yield {**fixed, **shared, **added, **size.settings}


def _combinations(axes: Axes) -> Iterator[Settings]:
    for values in product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def _check_size(study: Study, grids: Sequence[Axes], controls: Sequence[str]) -> None:
    """Refuse more runs than can be executed, before any is expanded."""
    count = sum(math.prod(len(values) for values in axes.values()) for axes in grids) * (1 + len(controls))
    if count > MOST_RUNS:
        axes = " x ".join(
            f"{key} ({len(values):,})" for grid in grids for key, values in grid.items() if len(values) > 1
        )
        raise InvalidInput(
            f"{study.source} declares {count:,} runs with its controls: {axes}.\n"
            f"At one run a minute they take {count / 1440:,.0f} days; the limit is {MOST_RUNS:,} runs. "
            "Shorten an axis, or split the study."
        )


def spec_of(study: Study, settings: Settings, plugins: Sequence[str] = ()) -> RunSpec:
    """One run from flat settings; an invalid value is refused with its file and key."""
    fields: dict[str, Any] = {"plugins": tuple(dict.fromkeys((*study.plugins, *plugins)))}
    for key, value in settings.items():
        part, dot, option = key.partition(".")
        if dot:
            fields.setdefault(f"{part}_options", {})[option] = value
        else:
            fields[key] = value
    try:
        return RunSpec.model_validate(fields, strict=True)
    except ValidationError as error:
        key, why = first_problem(error)
        return refuse(study.source, declaring_table(study, key), key, f"{why}.", InvalidInput)


def declaring_table(study: Study, key: str) -> str:
    """The table of the file that holds a setting."""
    for name, budget in study.budgets.items():
        if key in budget.settings and key not in study.fixed and key not in study.grid:
            return f"budget.{name}"
        if any(key in added for added in budget.include) and key not in study.fixed and key not in study.grid:
            return f"budget.{name}.include"
    if key in study.grid:
        return "grid"
    return "include" if any(key in added for added in study.include) else "fixed"


def _without(study: Study, specs: Iterable[RunSpec], *, warn: bool) -> list[RunSpec]:
    """The runs that no [[exclude]] matches; one that matches none is refused, unless a budget is the cause."""
    kept = list(specs)
    for excluded in study.exclude:
        matching = [spec for spec in kept if matches(spec, excluded)]
        if warn and not matching:
            settings = ", ".join(f"{key} = {list(values)}" for key, values in excluded.items())
            refuse(
                study.source,
                "exclude",
                settings,
                "no run matches, so nothing is excluded. Correct or remove it.",
                InvalidInput,
            )
        kept = [spec for spec in kept if not matches(spec, excluded)]
    return kept


def matches(spec: RunSpec, given: Mapping[str, Sequence[Option]]) -> bool:
    """Whether every setting of a run is among the given values."""
    return all(spec.setting(key) in values for key, values in given.items())


def _controls(study: Study, spec: RunSpec, controls: Sequence[str]) -> Iterator[RunSpec]:
    """The controls of a run; a control has none of its own."""
    if spec.control != "none":
        return
    for control in controls:
        for name in _rungs(study, spec) if control == "ladder" else [control]:
            yield spec.control_spec(name)


def _rungs(study: Study, spec: RunSpec) -> list[str]:
    """From frozen to all blocks but the first; all of them is the run itself."""
    depth = spec.setting("network.depth")
    if not isinstance(depth, int):
        refuse(
            study.source,
            "",
            "controls",
            f"the network {spec.network!r} has no option depth; name the rungs: ladder-1, ladder-2, ...",
        )
    if depth > MOST_RUNS:
        refuse(study.source, "", "controls", f"a ladder of {depth:,} rungs exceeds the {MOST_RUNS:,} runs of a study.")
    return [str(rung) for rung in Control.ladder(depth)]


def check(study: Study, specs: Sequence[RunSpec]) -> None:
    """Refuse names, options and values with which a run could not start; needs torch, unlike the expansion."""
    from creditscope.runs.run import check_network_options, make_recipe, make_rule

    sized: set[str] = set()
    for spec in specs:
        for part in PARTS:
            _check_part(study, spec, part)
        try:
            make_recipe(spec)
            make_rule(spec)
            network = f"{spec.network} {sorted(spec.network_options.items())}"
            if network not in sized:
                check_network_options(spec)
            sized.add(network)
        except CreditscopeError as error:
            kind = OutOfResources if isinstance(error, OutOfResources) else InvalidInput
            raise kind(f"{study.source}, {spec.title}: {error}\nNothing was run.") from error


def _check_part(study: Study, spec: RunSpec, part: str) -> None:
    """Refuse a name that is not registered, and options that it does not have."""
    name, entries = getattr(spec, part), registered(part)
    if name not in entries:
        refuse(study.source, declaring_table(study, part), part, unknown(part, name, entries))
    known = options_of(part, entries[name])
    for option, value in getattr(spec, f"{part}_options").items():
        key = f"{part}.{option}"
        if option in known and isinstance(value, tuple) and not isinstance(known[option], tuple):
            why = f"expected one value, got {list(value)}; a list of values belongs in [grid]."
            refuse(study.source, declaring_table(study, key), key, why, InvalidInput)
        if option not in known:
            refuse(study.source, declaring_table(study, key), key, unknown(f"option of {part} {name!r}", option, known))
