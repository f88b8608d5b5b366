"""Finds the blocks of any model by structure: by which modules run in line, not by class names or imports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from torch import nn
from torch.nn.modules.conv import _ConvNd

from creditscope.errors import ModelMismatch
from creditscope.stream.forward_calls import Call, ForwardCalls, in_line, record_calls
from creditscope.stream.hooks import residual
from creditscope.stream.states import block_lists


@dataclass(frozen=True, slots=True, eq=False)
class DiscoveredBlocks:
    """The blocks of a stream by name; `reader` is the layer that reads h_L in a plain chain of layers."""

    names: tuple[str, ...]
    blocks: tuple[nn.Module, ...]
    reader: str = ""

    @property
    def title(self) -> str:
        """Their number and kind, for example 12 x Block."""
        kinds = list(dict.fromkeys(type(block).__name__ for block in self.blocks))
        return f"{len(self.blocks)} x {' or '.join(kinds)}"

    def as_option(self, model: nn.Module, most: int = 4) -> str:
        """The option that names these blocks: the path of their list, else their names."""
        parents = {name.rpartition(".")[0] for name in self.names}
        if len(parents) == 1 and (path := next(iter(parents))):
            listed = model.get_submodule(path)
            if isinstance(listed, nn.ModuleList | nn.Sequential) and len(listed) == len(self.names):
                return f'blocks="{path}"'
        quoted = [f'"{name}"' for name in self.names]
        if len(quoted) > most:
            quoted = [*quoted[:2], "...", quoted[-1]]
        return f"blocks=[{', '.join(quoted)}]"


def discover(model: nn.Module, inputs: Any) -> DiscoveredBlocks:
    """The longest run of sibling modules of one type that keep the stream's shape; else the layers of a plain network.

    A run may extend over several parents of the same kind, as the residual blocks of a ResNet do, and its width may
    change between them. Each block must lead to the next: by the same tensor, by adding to the stream, or through
    modules that read nothing else. Two runs of the same length are an error.
    """
    recorded = record_calls(model, inputs)
    longest = candidates(recorded)
    if len(longest) > 1:
        listed = "; ".join(f"{run.as_option(model)} ({run.title})" for run in longest)
        raise ModelMismatch(
            f"{type(model).__name__} has {len(longest)} runs of blocks that could be its stream: {listed}.\n"
            "The states of one are not those of the other. Pass one of them."
        )
    if longest:
        return longest[0]
    layers = _layers(recorded)
    if layers is not None:
        return layers
    raise ModelMismatch(
        f"{type(model).__name__} has no recognisable stream: it has neither `return_hidden=True` nor embed, blocks and "
        "read-out, and its forward pass has no run of blocks of one type.\n"
        "Without the states between the blocks there is nothing to audit. "
        f"Pass blocks= the path of its block list, or a list of module names. {block_lists(model)}"
    )


def candidates(recorded: ForwardCalls) -> list[DiscoveredBlocks]:
    """The longest runs that are streams, without runs inside another one of the same length."""
    unique = {tuple(map(id, run)): run for run in _runs(recorded)}
    runs = sorted(unique.values(), key=len, reverse=True)
    best: list[list[Call]] = []
    for run in runs:
        if best and len(run) < len(best[0]):
            break
        if _is_stream(recorded, run):
            best.append(run)
    outer = [run for run in best if not any(_inside(run, other) for other in best if other is not run)]
    return [DiscoveredBlocks(tuple(call.name for call in run), tuple(call.module for call in run)) for run in outer]


def _runs(recorded: ForwardCalls) -> Iterator[list[Call]]:
    """Siblings of one type that ran one after the other; parents whose paths differ only in numbers count as one."""
    calls = {id(call.module): call for call in recorded.calls}
    groups: dict[tuple[str, type, type], list[Call]] = {}
    for name, parent in recorded.model.named_modules():
        places = dict.fromkeys((name, re.sub(r"\d+", "#", name)))
        for child in parent.children():
            if id(child) in calls and _has_matrix(child):
                for place in places:
                    groups.setdefault((place, type(parent), type(child)), []).append(calls[id(child)])
    for group in groups.values():
        run = _trimmed(sorted(group, key=lambda call: call.began), recorded)
        in_turn = all(one.ended < other.began for one, other in pairwise(run))
        if (len(run) > 1 or _alone(run, recorded)) and in_turn and any(call.keeps for call in run):
            yield run


def _alone(run: Sequence[Call], recorded: ForwardCalls) -> bool:
    """Whether this is the only block of a block list: a network of depth 1."""
    if len(run) != 1 or _is_layer(run[0].module):
        return False
    parent = recorded.model.get_submodule(run[0].name.rpartition(".")[0])
    return isinstance(parent, nn.ModuleList) and len(parent) == 1


def _trimmed(run: list[Call], recorded: ForwardCalls) -> list[Call]:
    """The run without an embedding that takes the model's input and a read-out that returns its output."""
    while run and not run[0].keeps and run[0].entered is recorded.whole.entered:
        run = run[1:]
    while run and not run[-1].keeps and run[-1].left is recorded.whole.left:
        run = run[:-1]
    return run


def _is_stream(recorded: ForwardCalls, run: Sequence[Call]) -> bool:
    """Whether each block leads to the next; single layers count only where they add to a stream."""
    adds = [_adds(one, other) for one, other in pairwise(run)]
    if _is_layer(run[0].module):
        return all(adds)
    loose = [
        index for index, (one, other) in enumerate(pairwise(run)) if one.left is not other.entered and not adds[index]
    ]
    return not loose or in_line(recorded, [call.module for call in run], loose)


def _adds(one: Call, other: Call) -> bool:
    if one.entered is None or one.left is None or other.entered is None or one.left is other.entered:
        return False
    return residual(one.entered, one.left, other.entered)


def _inside(run: Sequence[Call], other: Sequence[Call]) -> bool:
    return all(any(outer.began < call.began and call.ended < outer.ended for outer in other) for call in run)


def _layers(recorded: ForwardCalls) -> DiscoveredBlocks | None:
    """The layers with weights of a plain network: the first embeds, the last reads, each follows the previous."""
    layers = sorted((call for call in recorded.calls if _is_layer(call.module)), key=lambda call: call.began)
    first = 0 if recorded.whole.entered is None else 1  # token numbers have been embedded already
    if len(layers) - first < 2 or not in_line(recorded, [call.module for call in layers], range(len(layers))):
        return None
    *blocks, reader = layers[first:]
    return DiscoveredBlocks(tuple(call.name for call in blocks), tuple(call.module for call in blocks), reader.name)


def _is_layer(module: nn.Module) -> bool:
    """A single layer with weights, not a block: one of torch's own, or a module with one matrix and no children."""
    if isinstance(module, nn.Linear | _ConvNd):
        return True
    inside = any(True for _ in module.children())
    return not inside and sum(parameter.dim() > 1 for parameter in module.parameters()) == 1


def _has_matrix(module: nn.Module) -> bool:
    return any(parameter.dim() > 1 for parameter in module.parameters())
