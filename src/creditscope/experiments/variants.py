"""Variants of an experiment: the network itself, with frozen blocks, without them, or with the last ones learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from creditscope.arguments import calling
from creditscope.control import Control
from creditscope.errors import InvalidInput, ModelMismatch, UnknownName
from creditscope.registry import unknown
from creditscope.stream.find import find_stream, named_blocks
from creditscope.stream.isolation import undisturbed
from creditscope.terminal import one_line

VARIANTS = ("trained", "frozen", "shallow", "ladder")


def block_names(model: nn.Module, blocks: str | Sequence[str] | None, inputs: Any = None) -> tuple[str, ...]:
    """The names of the blocks that an audit of the model would find; `inputs` are needed where they are searched."""
    stream = find_stream(model, blocks)
    if inputs is not None:
        taken = "a network that takes the example, a batch of its inputs"
        with undisturbed(stream.model), torch.no_grad(), calling("The forward pass on the example", taken):
            stream.run(inputs)
    names = {id(module): name for name, module in stream.model.named_modules()}
    return tuple(names[id(block)] for block in stream.blocks)


def controls(variants: Sequence[str], depth: int) -> dict[str, Control]:
    """Each variant as a control, "trained" as none; "ladder" means its rungs from 0 to all blocks but the first."""
    if isinstance(variants, str) or not isinstance(variants, Sequence) or not variants:
        raise InvalidInput(
            f"variants = {one_line(repr(variants))} is not a list of variants.\n"
            f"It is not clear what to train. Pass some of {', '.join(VARIANTS)}."
        )
    named: dict[str, Control] = {}
    for variant in variants:
        if variant == "trained":
            named[variant] = Control()
        elif variant == "ladder":
            named |= {str(rung): rung for rung in Control.ladder(depth)}
        elif variant in VARIANTS or str(variant).startswith("ladder-"):
            named[variant] = Control.parse(variant)
        else:
            raise UnknownName(unknown("variant", str(variant), list(VARIANTS)))
    for control in named.values():
        control.check(depth)
    return named


def as_control(network: nn.Module, control: Control, blocks: Sequence[str]) -> nn.Module:
    """The network with its blocks frozen, removed, or as they are."""
    if control.kind == "shallow":
        _remove(network, blocks)
    elif control.kind != "none":
        modules = named_blocks(network, list(blocks))
        for block in modules[: len(modules) - (control.rung or 0)]:
            block.requires_grad_(False)
    return network


def _remove(network: nn.Module, blocks: Sequence[str]) -> None:
    """Take the blocks out of the lists that hold them."""
    holders = {name.rpartition(".")[0] for name in blocks}
    lists = {holder: network.get_submodule(holder) for holder in holders}
    for holder, module in lists.items():
        if not isinstance(module, nn.ModuleList | nn.Sequential):
            raise ModelMismatch(
                f"The blocks are attributes of {holder or type(network).__name__}, not entries of a ModuleList or "
                "Sequential.\nThey cannot be removed without changing its forward pass. Leave out the variant "
                "'shallow', or keep the blocks in a list."
            )
        gone = {name.rpartition(".")[2] for name in blocks if name.rpartition(".")[0] == holder}
        kept = [child for name, child in module.named_children() if name not in gone]
        for name in list(module._modules):
            del module._modules[name]
        for index, child in enumerate(kept):
            module._modules[str(index)] = child
