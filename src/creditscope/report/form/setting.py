"""Lines of the reporting form about the run: method, credit, feedback, network, data, seeds and recipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from creditscope.records.labels import counted
from creditscope.records.report import Report
from creditscope.records.run import RunRecord

UNKNOWN = "not recorded"
OLD = "not in this record: creditscope 0.1 wrote it, before records carried the facts of their method and network"
UNDECLARED = "the rule is not registered and declares nothing about itself"
RECIPE = "AdamW, {length}, batch {batch_size}, learning rate {learning_rate:g}, decay {weight_decay:g}"


def setting(run: RunRecord | None, report: Report | None) -> Iterator[tuple[str, str]]:
    """Heading and text of every line; a fact that the record does not hold is said to be missing."""
    if run is None:
        yield from _audited_alone(report)
        return
    yield "Method", named(run, "method") + (f" + penalty {run.spec['penalty']:g}" if run.spec.get("penalty") else "")
    if run.method is None:
        yield from ((head, OLD if is_old(run) else UNDECLARED) for head in ("Credit", "Feedback"))
    else:
        facts = run.method
        yield "Credit", f"{facts.formula}. {facts.summary}" if facts.formula else facts.summary
        yield "Feedback", f"{facts.feedback}; seed {_seed(run)}" if facts.feedback else "none that is drawn at random"
        if facts.paper:
            yield "Source of the method", facts.paper
    yield "Architecture", named(run, "network")
    yield "Terminal LayerNorm", OLD if run.network is None else "yes" if run.network.terminal_layernorm else "no"
    yield "Dataset", named(run, "data")
    yield "Seeds", _seeds(report) or _seed(run)
    recipe = run.resolved or run.spec
    if "epochs" in recipe:
        yield "Recipe", RECIPE.format(length=counted(recipe["epochs"], "epoch"), **recipe)


def _audited_alone(report: Report | None) -> Iterator[tuple[str, str]]:
    """An audit without the record of a run knows its network only."""
    model = UNKNOWN if report is None else f"{report.subject.model}, {counted(report.subject.depth, 'block')}"
    yield from ((head, UNKNOWN) for head in ("Method", "Credit", "Feedback"))
    yield "Architecture", model
    yield from ((head, UNKNOWN) for head in ("Terminal LayerNorm", "Dataset"))
    yield "Seeds", _seeds(report) or UNKNOWN


def named(run: RunRecord, part: str) -> str:
    """The run's "method", "network" or "data" with every option; an old record holds only the options given."""
    given: Mapping[str, Any] = run.spec.get(f"{part}_options", {})
    prefix = f"{part}."
    options = {name.removeprefix(prefix): value for name, value in run.resolved.items() if name.startswith(prefix)}
    name = run.resolved.get(part, run.spec.get(part))
    if not name:
        return UNKNOWN
    listed = ", ".join(f"{option} = {value}" for option, value in (options or given).items())
    text = f"{name} ({listed})" if listed else str(name)
    return f"{text}; options left at their defaults are not in this record" if is_old(run) else text


def is_old(run: RunRecord) -> bool:
    """Whether the record was written before records carried every resolved option."""
    return not run.resolved


def _seed(run: RunRecord) -> str:
    return str(run.resolved.get("seed", run.spec.get("seed", UNKNOWN)))


def _seeds(report: Report | None) -> str:
    return ", ".join(map(str, report.provenance.seeds)) if report is not None else ""
