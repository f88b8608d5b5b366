"""Lines of the reporting form about the run: method, credit, feedback, network, data, seeds and recipe."""

from __future__ import annotations

from collections.abc import Iterator

from creditscope.records.labels import Settings, counted, flatten, label, named
from creditscope.records.report import Report
from creditscope.records.run import RunRecord

UNKNOWN = "not recorded"
OLD = "not in this record: written under schema version 1, without the facts of its method and network"
UNDECLARED = "the rule is not registered and declares nothing about itself"
RECIPE = "{optimiser}, {length}, batch {batch_size}, learning rate {learning_rate:g}, decay {weight_decay:g}"
OPTIMISERS = {"adamw": "AdamW", "adam": "Adam", "sgd": "SGD"}
SCHEDULES = {"constant": ", constant rate"}  # the others are the common recipe's
LOSSES = {"squared_error": ", half the squared error", "sigmoid": ", cross-entropy of every class alone"}
AUGMENTED: dict[bool | None, str] = {True: ", augmentation as the dataset defines it", False: ", no augmentation"}


def setting(run: RunRecord | None, report: Report | None) -> Iterator[tuple[str, str]]:
    """Heading and text of every line; a fact that the record does not hold is said to be missing."""
    if run is None:
        yield from _audited_alone(report)
        return
    settings = run.resolved or flatten(run.spec)
    yield "Method", _complete(label(settings), run) if settings.get("method") else UNKNOWN
    yield "Control", str(settings.get("control", UNKNOWN))
    if run.method is None:
        yield from ((head, OLD if is_old(run) else UNDECLARED) for head in ("Credit", "Feedback"))
    else:
        facts = run.method
        yield "Credit", f"{facts.formula}. {facts.summary}" if facts.formula else facts.summary
        yield "Feedback", f"{facts.feedback}; seed {_seed(run)}" if facts.feedback else "none that is drawn at random"
        if facts.paper:
            yield "Source of the method", facts.paper
    yield "Architecture", _named(run, settings, "network")
    yield "Terminal LayerNorm", OLD if run.network is None else "yes" if run.network.terminal_layernorm else "no"
    yield "Dataset", _named(run, settings, "data") + (" with random labels" if settings.get("random_labels") else "")
    yield "Seeds", _seeds(report) or _seed(run)
    if settings.keys() >= {"epochs", "batch_size", "learning_rate", "weight_decay"}:
        yield "Recipe", _recipe(settings)


def _recipe(settings: Settings) -> str:
    """How the run was trained; an old record was trained by AdamW, with cross-entropy, under a cosine."""
    named = {**settings, "optimiser": OPTIMISERS[settings.get("optimiser", "adamw")]}
    text = RECIPE.format(length=counted(settings["epochs"], "epoch"), **named)
    text += SCHEDULES.get(settings.get("schedule", ""), "") + LOSSES.get(settings.get("loss", ""), "")
    return text + AUGMENTED.get(settings.get("augment"), "")


def _audited_alone(report: Report | None) -> Iterator[tuple[str, str]]:
    """An audit without the record of a run knows its network only."""
    model = UNKNOWN if report is None else f"{report.subject.model}, {counted(report.subject.depth, 'block')}"
    yield from ((head, UNKNOWN) for head in ("Method", "Credit", "Feedback"))
    yield "Architecture", model
    yield from ((head, UNKNOWN) for head in ("Terminal LayerNorm", "Dataset"))
    yield "Seeds", _seeds(report) or UNKNOWN


def _named(run: RunRecord, settings: Settings, part: str) -> str:
    """The run's "network" or "data" with every option; an old record holds only the options given."""
    return _complete(named(settings, part), run) if settings.get(part) else UNKNOWN


def _complete(text: str, run: RunRecord) -> str:
    return f"{text}; options left at their defaults are not in this record" if is_old(run) else text


def is_old(run: RunRecord) -> bool:
    """Whether the record was written before records carried every resolved option."""
    return not run.resolved


def _seed(run: RunRecord) -> str:
    return str(run.resolved.get("seed", run.spec.get("seed", UNKNOWN)))


def _seeds(report: Report | None) -> str:
    return ", ".join(map(str, report.provenance.seeds)) if report is not None else ""
