"""Runs of module calls that could be the stream of a model, by which calls follow which."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from torch import nn
from torch.nn.modules.conv import _ConvNd

from creditscope.stream.block_pass import residual
from creditscope.stream.bottlenecks import Bottlenecks
from creditscope.stream.forward_calls import Call, Edge, ForwardCalls, in_line
from creditscope.stream.turns import from_the_first_input, with_their_state

# Of the weights of a run of several types: its blocks of one type are then the stream, and the others lie between them.
# A choice, not a calibrated limit.
NEARLY_ALL = 0.9
# A stream is a detail of another one if it has less than this share of its weights. Over 95 families of timm, one model
# each, runs that would be longer than the stream but are details of it have at most 0.18 (depthwise convolutions 0.13,
# position encodings 0.17, the front of a network 0.18), and the streams that are taken have at least 0.63 of the run
# with the most weights: any value between gives the same streams.
COVERS = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class CallRun:
    """Calls one after the other: h_l is the state that enters call l. `reader` is the call that reads h_L, if known."""

    calls: tuple[Call, ...]
    adds: bool = False  # the calls return what is added to the stream
    reader: str = ""

    def __len__(self) -> int:
        return len(self.calls)

    def states(self) -> list[Edge | None]:
        """The places of its states in the graph; the last one only where it is a tensor of its own."""
        entries = [call.entry for call in self.calls]
        return entries if self.adds or self.reader else [*entries, self.calls[-1].exit_edge]

    def parameters(self) -> int:
        """The number of parameters in its blocks."""
        own = {id(parameter): parameter for call in self.calls for parameter in call.module.parameters()}
        return sum(parameter.numel() for parameter in own.values())

    def inside(self, other: CallRun) -> bool:
        """Whether each of its calls happens during a call of the other run."""
        return all(
            any(outer.began < call.began and call.ended < outer.ended for outer in other.calls) for call in self.calls
        )

    def detail_of(self, other: CallRun) -> bool:
        """Whether it happens inside the other run and has few of its weights."""
        return self.inside(other) and self.parameters() < COVERS * other.parameters()

    def beside(self, other: CallRun) -> bool:
        """Whether it shares no call with the other run and neither happens inside the other."""
        shared = {id(call) for call in self.calls} & {id(call) for call in other.calls}
        return not shared and not self.inside(other) and not other.inside(self)

    def part_of(self, other: CallRun) -> bool:
        """Whether the other run has all its calls and more."""
        return len(self) < len(other) and {id(call) for call in self.calls} <= {id(call) for call in other.calls}


def candidates(recorded: ForwardCalls, graph: Bottlenecks) -> list[CallRun]:
    """The runs that are streams: of blocks that keep a shape, else the layers of a plain network, else any blocks."""
    every = {tuple(map(id, run)): run for run in _runs(recorded, graph)}.values()
    keeping = _streams(recorded, graph, [run for run in every if any(call.keeps for call in run)])
    if keeping:
        narrow = [run for run in every if all(map(graph.narrow, CallRun(tuple(run)).states()))]
        wide = _streams(recorded, graph, narrow)
        return [run for run in keeping if not any(map(run.detail_of, wide))] or wide
    layers = _layers(recorded, graph)
    return [layers] if layers is not None else _streams(recorded, graph, list(every))


def carries_everything(run: CallRun, runs: Sequence[CallRun], graph: Bottlenecks) -> bool:
    """Whether all that the logits know of the inputs passes through each state, towers that return to it left out.

    A tower beside the run that returns before its end is a part of the block where it returns. The last state is then
    a bottleneck, and without the later states of the tower every other state is one too.
    """
    states = run.states()
    if all(map(graph.narrow, states)):
        return True
    if not graph.narrow(states[-1]):
        return False
    towers = [tower for tower in runs if tower.beside(run) and not graph.narrow(tower.calls[-1].exit_edge)]
    later = {edge for tower in towers for edge in (*tower.states()[1:], tower.calls[-1].exit_edge)} - set(states)
    return bool(later) and all(map(graph.without(later).narrow, states))


def _streams(recorded: ForwardCalls, graph: Bottlenecks, runs: Sequence[list[Call]]) -> list[CallRun]:
    """The runs that are streams, without those that are part of a longer one.

    Where one carries everything, runs that take another pass of the model to examine are not: they are no rivals.
    """
    runs = [run for run in runs if not _mostly_of_one_type(run, runs)]
    streams: list[CallRun] = []
    waiting: list[tuple[CallRun, list[int]]] = []
    for calls in sorted(runs, key=len, reverse=True):
        adds = [_adds(one, other) for one, other in pairwise(calls)]
        handed = [one.left is other.entered for one, other in pairwise(calls)]
        run = CallRun(tuple(calls), adds=any(adds) and not any(handed))
        if not run.adds and not any(handed) and run.parameters() >= COVERS * _weights(recorded.model):
            run = CallRun(run.calls, reader=reader_of(calls, recorded, graph))
        if not _possible(graph, run) or any(run.part_of(other) for other in streams):
            continue
        loose = [index for index in range(len(adds)) if not handed[index] and not adds[index]]
        if not loose or all(map(graph.narrow, run.states())):
            streams.append(run)
        else:
            waiting.append((run, loose))
    streams += [run for run, _ in waiting if carries_everything(run, streams, graph)]
    if any(carries_everything(run, streams, graph) for run in streams):
        return [run for run in streams if not any(run.part_of(other) for other in streams)]
    for run, loose in waiting:
        if not any(run.part_of(other) for other in streams) and in_line(recorded, run.calls, loose):
            streams.append(run)
    return [run for run in streams if not any(run.part_of(other) for other in streams)]


def reader_of(calls: Sequence[Call], recorded: ForwardCalls, graph: Bottlenecks) -> str:
    """The module that reads h_L, where the inputs of the blocks are bottlenecks and what the last one returns is not.

    So it is where the model scales what a block returns before it adds it to the stream: h + α f(h). Empty if there is
    none, or if it is called several times.
    """
    last = calls[-1]
    if graph.narrow(last.exit_edge) or not all(call.keeps and graph.narrow(call.entry) for call in calls):
        return ""
    if not all(graph.follows(other.entry, one.exit_edge) for one, other in pairwise(calls)):
        return ""  # experts side by side read one state
    later = sorted((call for call in recorded.calls if call.began > last.ended), key=lambda call: call.began)
    reads = (call for call in later if graph.narrow(call.entry) and graph.follows(call.entry, last.exit_edge))
    reader = next(reads, None)
    once = reader is not None and sum(call.module is reader.module for call in recorded.calls) == 1
    return reader.name if reader is not None and once else ""


def _weights(model: nn.Module) -> int:
    """The number of a model's parameters, tables of embeddings left out."""
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    return sum(parameter.numel() for parameter in model.parameters() if id(parameter) not in tables)


def _mostly_of_one_type(run: list[Call], runs: Sequence[list[Call]]) -> bool:
    """Whether a run of several types has nearly all its weights in blocks of one type that are a run themselves."""
    if len({type(call.module) for call in run}) == 1:
        return False
    whole, own = CallRun(tuple(run)), {id(call) for call in run}
    parts = [CallRun(tuple(part)) for part in runs if len(part) < len(run) and {id(call) for call in part} < own]
    alike = [part for part in parts if len({type(call.module) for call in part.calls}) == 1]
    return any(part.parameters() >= NEARLY_ALL * whole.parameters() for part in alike)


def _possible(graph: Bottlenecks, run: CallRun) -> bool:
    """Whether the logits depend on its states; single layers count only where they add to a stream or are one layer."""
    again = len({id(call.module) for call in run.calls}) < len(run)
    if is_layer(run.calls[0].module) and not again and not run.adds:
        return False
    if all(call.left is call.entered for call in run.calls):
        return False  # blocks that hand this tensor on: the state is another one
    return all(map(graph.used, run.states()))


def _runs(recorded: ForwardCalls, graph: Bottlenecks) -> Iterator[list[Call]]:
    """Siblings of one type, or of any type between bottlenecks, and the calls of a module that is called several times.

    Parents whose paths differ only in numbers count as one.
    """
    by_module = _by_module(recorded)
    for calls in by_module.values():
        if len(calls) > 1:
            with_their_state(calls, graph)
    for group in _groups(recorded, by_module).values():
        run = _trimmed(sorted(group, key=lambda call: call.began), recorded, graph)
        if run and run[-1].ordinal:
            run = from_the_first_input(run, graph)
        mixed = len({type(call.module) for call in run}) > 1
        if mixed:
            run = [call for call in run if graph.narrow(call.entry) and graph.narrow(call.exit_edge)]
        in_turn = all(one.ended < other.began for one, other in pairwise(run))
        if (len(run) > 1 or _alone(run, recorded)) and in_turn:
            yield run
    for calls in by_module.values():
        if len(calls) > 1 and has_matrix(calls[0].module):
            run = from_the_first_input(calls, graph)
            if len(run) > 1:
                yield run


def _groups(recorded: ForwardCalls, by_module: dict[int, list[Call]]) -> dict[tuple[object, ...], list[Call]]:
    groups: dict[tuple[object, ...], list[Call]] = {}
    for name, parent in recorded.model.named_modules():
        places = dict.fromkeys((name, re.sub(r"\d+", "#", name)))
        for child in parent.children():
            if id(child) in by_module and has_matrix(child):
                for place in places:
                    groups.setdefault((place, type(parent), type(child)), []).extend(by_module[id(child)])
                    if not is_layer(child):
                        groups.setdefault((place, type(parent)), []).extend(by_module[id(child)])
    return {key: list({id(call): call for call in group}.values()) for key, group in groups.items()}


def _by_module(recorded: ForwardCalls) -> dict[int, list[Call]]:
    calls: dict[int, list[Call]] = {}
    for call in recorded.calls:
        calls.setdefault(id(call.module), []).append(call)
    return calls


def _alone(run: Sequence[Call], recorded: ForwardCalls) -> bool:
    """Whether this is the only block of a block list: a network of depth 1."""
    if len(run) != 1 or is_layer(run[0].module):
        return False
    parent = recorded.model.get_submodule(run[0].name.rpartition(".")[0])
    return isinstance(parent, nn.ModuleList) and len(parent) == 1


def _trimmed(run: list[Call], recorded: ForwardCalls, graph: Bottlenecks) -> list[Call]:
    """The run without an embedding that takes the model's input and a read-out that returns its output."""
    if any(len(call.results) > 1 for call in run):
        with_their_state(run, graph)
    while run and not run[0].keeps and run[0].entered is recorded.whole.entered:
        run = run[1:]
    while run and not run[-1].keeps and run[-1].left is recorded.whole.left:
        run = run[:-1]
    return run


def _adds(one: Call, other: Call) -> bool:
    if one.entered is None or one.left is None or other.entered is None or one.left is other.entered:
        return False
    return residual(one.entered, one.left, other.entered)


def _layers(recorded: ForwardCalls, graph: Bottlenecks) -> CallRun | None:
    """The layers with weights of a plain network: the first embeds, the last reads, each follows the previous.

    Layers that the logits do not depend on, as those of a decoder beside the read-out, are left out.
    """
    used = (call for call in recorded.calls if is_layer(call.module) and graph.used(call.exit_edge))
    layers = sorted(used, key=lambda call: call.began)
    first = 0 if recorded.whole.entered is None else 1  # token numbers have been embedded already
    if len(layers) - first < 2 or not in_line(recorded, layers, range(len(layers))):
        return None
    *blocks, reader = layers[first:]
    return CallRun(tuple(blocks), reader=reader.name)


def is_layer(module: nn.Module) -> bool:
    """A single layer with weights, not a block: one of torch's own, or a module with one matrix and no children."""
    if isinstance(module, nn.Linear | _ConvNd):
        return True
    inside = any(True for _ in module.children())
    return not inside and sum(parameter.dim() > 1 for parameter in module.parameters()) == 1


def has_matrix(module: nn.Module) -> bool:
    """Whether a module has a weight of two or more dimensions."""
    return any(parameter.dim() > 1 for parameter in module.parameters())
