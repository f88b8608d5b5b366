"""Specs that can be trained at once, as one stack, and their training."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from creditscope.records.run import HistoryRow
from creditscope.runs.run import computing_with, keyed, load_data, load_plugins, make_network, make_recipe, make_rule
from creditscope.runs.spec import RunSpec
from creditscope.training.checkpoint import Checkpoint
from creditscope.training.many import fit_many


def stack_form(spec: RunSpec) -> str | None:
    """What specs of one stack have in common: all but seed, learning rate, size of the penalty and feedback.

    None if the rule keeps a state besides the weights of the network: such a run is trained alone.
    """
    rule = make_rule(spec).innermost
    if not rule.stackable:
        return None
    content = spec.resolved()
    content["penalty"] = spec.penalty > 0
    content["method_options"] = {k: v for k, v in content["method_options"].items() if k not in rule.drawing}
    return json.dumps({k: v for k, v in content.items() if k not in ("seed", "learning_rate")}, sort_keys=True)


def train_many(
    specs: Sequence[RunSpec],
    *,
    data_folder: Path | None = None,
    device: str = "cpu",
    on_epoch: Callable[[int, HistoryRow], None] | None = None,
    snapshots: Sequence[Path | None] | None = None,
    snapshot_seconds: float = 30.0,
) -> list[Checkpoint]:
    """Run specs of one form from their seeds to their checkpoints, which are those that `train` makes of each."""
    for spec in specs:
        load_plugins(spec)
    data = load_data(specs[0], data_folder)
    with computing_with(specs[0].threads):
        checkpoints = fit_many(
            [make_network(spec, data).to(device) for spec in specs],
            [make_rule(spec) for spec in specs],
            data,
            [make_recipe(spec) for spec in specs],
            seeds=[spec.seed for spec in specs],
            on_epoch=on_epoch,
            specs=[spec.model_dump(mode="json") for spec in specs],
            resolved=[spec.settings(defaults=True) for spec in specs],
            snapshots=snapshots,
            snapshot_seconds=snapshot_seconds,
        )
    return [keyed(checkpoint, spec) for checkpoint, spec in zip(checkpoints, specs, strict=True)]
