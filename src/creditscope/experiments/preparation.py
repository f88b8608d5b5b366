"""What can be known before anything is trained: seeds, batches, networks, blocks, and whether evaluate fits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from creditscope.auditing.accuracies import checked_seeds
from creditscope.auditing.input_checks import checked_batches
from creditscope.control import Control
from creditscope.errors import InvalidInput, ModelMismatch
from creditscope.experiments.answers import check_agreement, right_answers
from creditscope.experiments.functions import UserFunctions, weights_digest
from creditscope.experiments.running import Task
from creditscope.experiments.variants import as_control, block_names, controls
from creditscope.stream.unwrap import bare


@dataclass(frozen=True, slots=True)
class Plan:
    """The runs of an experiment, controls first within each seed."""

    seeds: tuple[int, ...]
    controls: dict[str, Control]
    blocks: tuple[str, ...]
    tasks: tuple[Task, ...]


def named_seeds(seeds: Sequence[int]) -> tuple[int, ...]:
    """The seeds, checked: whole numbers, at least one, none twice."""
    named = checked_seeds(seeds, "seeds")
    if not named or min(named) < 0 or max(named) >= 2**63:
        raise InvalidInput(
            f"seeds = {list(named)}: at least one seed is needed, and none below 0 or above 2**63 - 1.\n"
            "Nothing could be trained. Pass one seed or more; three or more are recommended."
        )
    return named


def planned(
    functions: UserFunctions,
    seeds: Sequence[int],
    variants: Sequence[str],
    blocks: str | Sequence[str] | None,
    inputs: Any = None,
) -> Plan:
    """Build the network of every seed once, find its blocks, and list the runs."""
    named = named_seeds(seeds)
    networks = {seed: functions.fresh(seed) for seed in named}
    starts = {seed: weights_digest(bare(network)) for seed, network in networks.items()}
    _check_networks(functions, networks, starts)
    first = networks[named[0]]
    names = block_names(first, blocks, inputs)
    chosen = controls(variants, len(names))
    for control in chosen.values():  # a control that cannot be made is refused now, not after hours
        if control.kind == "shallow":
            as_control(bare(functions.fresh(named[0])), control, names)
    code = functions.digest()
    order = sorted(chosen, key=lambda variant: variant == "trained")  # controls first: their errors show early
    tasks = tuple(
        Task(variant, seed, chosen[variant], names, starts[seed], code) for seed in named for variant in order
    )
    return Plan(named, chosen, names, tasks)


def collected(batches: Iterable[Any], network: nn.Module) -> tuple[Any, ...]:
    """All batches, kept: every network answers the same images in the same order."""
    return tuple(checked_batches(batches, bare(network)))


def check_evaluate(functions: UserFunctions, network: nn.Module, batches: Sequence[Any]) -> None:
    """Let evaluate judge an untrained network: 31 instead of 0.31, or the accuracy of other images, is refused."""
    check_agreement(functions.evaluated(network), right_answers(network, batches), "before training")


def _check_networks(functions: UserFunctions, networks: dict[int, nn.Module], starts: dict[int, str]) -> None:
    """Refuse networks of one seed that differ, of different seeds that do not, and of different architectures."""
    first, *others = networks
    if weights_digest(bare(functions.fresh(first))) != starts[first]:
        raise InvalidInput(
            f"make_model({first}) gave different weights when called twice.\n"
            "The control would start from other weights than the network. Draw them from the seed: "
            "torch.manual_seed(seed)."
        )
    shapes = {
        seed: {name: p.shape for name, p in bare(network).named_parameters()} for seed, network in networks.items()
    }
    for seed in others:
        if shapes[seed] != shapes[first]:
            raise ModelMismatch(
                f"make_model({seed}) is another architecture than make_model({first}).\n"
                "Seeds would differ in more than chance. Return the same network for every seed."
            )
        twin = next((other for other in networks if other != seed and starts[other] == starts[seed]), None)
        if twin is not None:
            raise InvalidInput(
                f"make_model({twin}) and make_model({seed}) have the same weights: the seed is ignored.\n"
                "Runs from one start would count as independent, and the interval would be too narrow. Draw the "
                "weights from the seed: torch.manual_seed(seed)."
            )
