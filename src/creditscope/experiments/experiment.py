"""experiment(): the user's own training over seeds, with its controls, audited and judged as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy
from torch import nn

from creditscope.arguments import as_path, as_text
from creditscope.auditing.audit import audit
from creditscope.errors import InvalidInput
from creditscope.experiments.answers import check_agreement, packed, right_answers
from creditscope.experiments.functions import Evaluate, MakeModel, Train, UserFunctions, check_callable
from creditscope.experiments.preparation import Plan, check_evaluate, collected, named_seeds, planned
from creditscope.experiments.running import TrainedRun, train_all
from creditscope.experiments.store import RESULT, ExperimentStore
from creditscope.experiments.summary import margins, over_all_seeds, seeds_needed
from creditscope.files import check_folder
from creditscope.protocols import DEFAULT, protocol_named
from creditscope.records.experiment import ExperimentReport, ExperimentRun
from creditscope.records.report import Report

MakeCredit = Callable[[nn.Module, int], Any]


def experiment(
    make_model: MakeModel,
    train: Train,
    evaluate: Evaluate,
    *,
    seeds: Sequence[int],
    batches: Iterable[Any],
    credit: MakeCredit | None = None,
    variants: Sequence[str] = ("trained", "frozen"),
    blocks: str | Sequence[str] | None = None,
    store: Path | str | None = None,
    workers: int = 1,
    name: str = "",
    protocol: str = DEFAULT,
) -> ExperimentReport:
    """Train your network and its controls with your own functions, audit them, and judge all seeds together.

    make_model  seed -> an untrained network; called anew for every variant, so that all of them start alike
    train       (model, seed) -> trains it in place, or returns the trained network
    evaluate    model -> accuracy from 0 to 1; compared with the answers to the images of `batches`
    batches     test batches (inputs, labels); read once and kept, so that every network answers the same images
    credit      (model, seed) -> what `audit(credit=...)` takes, for a trained network
    variants    "trained", "frozen" (blocks keep their initial values), "shallow" (blocks removed), "ladder" (only the
                last k blocks learn, for every k) or one rung, "ladder-2"
    blocks      as for `audit`: without it the blocks are searched
    store       a folder: finished runs are kept there, and are not trained again
    workers     runs in parallel, in processes of one thread each
    protocol    as for `audit`

    The random generators are seeded with the seed before make_model and train. A frozen block's parameters have
    requires_grad = False; a loop that moves them all the same is refused.

    >>> import creditscope, torch
    >>> from creditscope.networks.build import build
    >>> inputs, labels = torch.linspace(-1, 1, 384).view(64, 6), torch.arange(64) % 3
    >>> def make(seed):
    ...     return build("resmlp", 6, 3, seed, d=8, depth=2)
    >>> def train(model, seed):
    ...     optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    ...     torch.nn.functional.cross_entropy(model(inputs), labels).backward()
    ...     optimiser.step()
    >>> def evaluate(model):
    ...     return (model(inputs).argmax(1) == labels).double().mean().item()
    >>> result = creditscope.experiment(make, train, evaluate, seeds=[0, 1], batches=[(inputs, labels)])
    >>> result.seeds, list(result.networks), result.findings["D3"].code
    ((0, 1), ['trained', 'frozen'], 'D3')
    """
    protocol_named(protocol)
    name = as_text("name", name)
    functions, folder = UserFunctions(make_model, train, evaluate), _opened(store)
    _check_workers(workers)
    if credit is not None:
        check_callable(credit, "credit", "(model, seed)", 2)
    first = functions.fresh(named_seeds(seeds)[0])
    images = collected(batches, first)
    plan = planned(functions, seeds, variants, blocks, images[0].inputs)
    if "trained" not in plan.controls:
        raise InvalidInput(
            f"variants = {list(variants)} leaves out 'trained'.\n"
            "There would be no network to audit. Add it: variants=('trained', 'frozen')."
        )
    check_evaluate(functions, first, images)
    answers: dict[tuple[str, int], Any] = {}

    def answered(run: TrainedRun) -> None:
        """The answers of a network, as soon as it is trained: an evaluate that disagrees stops the experiment."""
        right = right_answers(run.network, images)
        check_agreement(run.evaluated, right, f"{run.task.variant}, seed {run.task.seed}")
        answers[run.task.variant, run.task.seed] = right

    runs = train_all(functions, plan.tasks, folder, workers, answered)
    networks = {
        variant: {run.task.seed: run.network for run in runs if run.task.variant == variant}
        for variant in plan.controls
    }
    reports = [
        _audited(functions, plan, seed, networks, images, credit, blocks=blocks, name=name, protocol=protocol)
        for seed in plan.seeds
    ]
    result = _joined(plan, runs, answers, reports, name)
    if folder is not None:
        result.to_json(folder.folder / RESULT)
    return result.holding(networks)


def _audited(
    functions: UserFunctions,
    plan: Plan,
    seed: int,
    networks: dict[str, dict[int, nn.Module]],
    images: Sequence[Any],
    credit: MakeCredit | None,
    **options: Any,
) -> Report:
    """The audit of one trained network beside its frozen control, if there is one."""
    network = networks["trained"][seed]
    control = networks.get("frozen", {}).get(seed)
    return audit(
        network,
        images,
        control=control,
        seeds=[seed],
        control_seeds=None if control is None else [seed],
        initial=functions.fresh(seed),
        credit=None if credit is None else credit(network, seed),
        **options,
    )


def _joined(
    plan: Plan, runs: Sequence[TrainedRun], answers: dict[tuple[str, int], Any], reports: Sequence[Report], name: str
) -> ExperimentReport:
    """The runs in the order of variants and seeds, the margin over every control, and the report over seeds."""
    tables = {variant: numpy.stack([answers[variant, seed] for seed in plan.seeds]) for variant in plan.controls}
    evaluated = {(run.task.variant, run.task.seed): run.evaluated for run in runs}
    audits = dict(zip(plan.seeds, reports, strict=True))
    over = margins(tables, reports[0].protocol)
    depth = over.get("frozen")
    report = over_all_seeds(reports, plan.seeds, depth)
    shares = {variant: tuple(table.mean(1).tolist()) for variant, table in tables.items()}
    return ExperimentReport(
        name=name or reports[0].subject.name,
        seeds=plan.seeds,
        variants=tuple(plan.controls),
        blocks=plan.blocks,
        runs=tuple(
            ExperimentRun(
                variant=variant,
                seed=seed,
                accuracy=share,
                evaluated=evaluated[variant, seed],
                images=tables[variant].shape[1],
                right=packed(answers[variant, seed]),
                report=audits[seed] if variant == "trained" else None,
            )
            for variant in plan.controls
            for seed, share in zip(plan.seeds, shares[variant], strict=True)
        ),
        report=report,
        margins=over,
        settle=seeds_needed(depth, shares["trained"], shares.get("frozen", ()), tables["trained"].shape[1]),
    )


def _opened(store: Path | str | None) -> ExperimentStore | None:
    if store is None:
        return None
    folder = as_path(store)
    check_folder(folder)
    return ExperimentStore(folder)


def _check_workers(workers: Any) -> None:
    if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= 10_000:
        raise InvalidInput(
            f"workers must be a whole number of at least 1, got {workers!r}.\nNothing was trained. Pass workers=1."
        )
