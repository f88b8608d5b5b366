"""Finds the blocks of any model by structure and influence, not by class names or imports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge

from creditscope.errors import AmbiguousStream, CreditscopeError, ModelMismatch
from creditscope.stream.block_pass import BlockCalls
from creditscope.stream.bottlenecks import Bottlenecks
from creditscope.stream.candidates import COVERS, CallRun, candidates, carries_everything
from creditscope.stream.forward_calls import record_calls
from creditscope.stream.states import block_lists, logits_of
from creditscope.stream.turns import block_calls

ALIKE = 0.7  # of the influence of another stream: of 300 pairs of equal towers with other weights the least was 0.72


@dataclass(frozen=True, slots=True, eq=False)
class DiscoveredBlocks:
    """The blocks of a stream by name; `reader` is the layer that reads h_L in a plain chain of layers.

    calls      the calls of the blocks, one per state
    influence  median over its states after the first of ‖h_l‖·‖g_l‖/‖e‖; NaN if it was not measured
    others     the streams that were not taken
    """

    names: tuple[str, ...]
    calls: BlockCalls
    reader: str = ""
    influence: float = math.nan
    others: tuple[DiscoveredBlocks, ...] = ()

    @property
    def blocks(self) -> tuple[nn.Module, ...]:
        """One module per state."""
        return self.calls.blocks

    @property
    def title(self) -> str:
        """Their number and kind, for example 12 x Block, or 12 calls of Block."""
        kinds = list(dict.fromkeys(type(block).__name__ for block in self.blocks))
        return f"{len(self.blocks)} {'calls of' if self.calls.repeated else 'x'} {' or '.join(kinds)}"

    def other_streams(self, model: nn.Module, most: int = 4) -> str:
        """The streams that were not taken, the strongest first, with their influence beside that of this one."""
        ranked = sorted(self.others, key=lambda other: -other.influence if math.isfinite(other.influence) else 0.0)
        listed = [f"{other.as_option(model)} ({other.title}, {other.influence:.2g})" for other in ranked[:most]]
        more = f" and {len(ranked) - most} more" if len(ranked) > most else ""
        return f"influence of this one {self.influence:.2g}, of {'; '.join(listed)}{more}"

    def as_option(self, model: nn.Module, most: int = 4) -> str:
        """The option that names these blocks: the path of their list, else their names."""
        names = tuple(dict.fromkeys(self.names))
        parents = {name.rpartition(".")[0] for name in names}
        if len(parents) == 1 and (path := next(iter(parents))):
            listed = model.get_submodule(path)
            if isinstance(listed, nn.ModuleList | nn.Sequential) and len(listed) == len(names):
                return f'blocks="{path}"'
        quoted = [f'"{name}"' for name in names]
        if len(quoted) > most:
            quoted = [*quoted[:2], "...", quoted[-1]]
        return f"blocks=[{', '.join(quoted)}]"


def discover(model: nn.Module, inputs: object) -> DiscoveredBlocks:
    """The stream that the loss depends on most.

    Candidates are runs of sibling modules that keep the stream's shape, or the calls of one module; else the layers of
    a plain network; else any run of sibling modules. A run may extend over several parents of the same kind, as the
    residual blocks of a ResNet do, and its width may change between them. Each block must lead to the next: by the
    same tensor, by adding to the stream, or through modules that read nothing else.

    Streams of which every state is a bottleneck lie on one path, and the loss depends on the input through each of them
    alone: the one with the most blocks is taken, details of a block excepted. A tower that leaves such a stream and
    returns to it before its end is a part of it. Of streams side by side the one with the
    greatest influence is taken. Others with at least 70 % of it cannot be told from it by influence: of these the
    longest is taken, and two of the same length are an error that names both.
    """
    recorded = record_calls(model, inputs)
    no_logits = None
    try:
        logits = logits_of(recorded.answer)
    except CreditscopeError as error:
        logits, no_logits = torch.zeros(()), error  # with blocks, `run` explains it
    graph = Bottlenecks(recorded, logits)
    runs = candidates(recorded, graph)
    if not runs:
        raise no_logits or _without_a_stream(model)
    influences = influences_of(runs, logits) if len(runs) > 1 else [math.nan]
    discovered = {id(run): _named(run, influence) for run, influence in zip(runs, influences, strict=True)}
    best = _on_the_path([run for run in runs if carries_everything(run, runs, graph)])
    if best is None:
        best = _strongest(model, _outer(runs), discovered, graph)
    others = tuple(discovered[id(run)] for run in _outer(runs) if run is not best and not run.inside(best))
    return _named(best, discovered[id(best)].influence, others)


def _named(run: CallRun, influence: float, others: tuple[DiscoveredBlocks, ...] = ()) -> DiscoveredBlocks:
    return DiscoveredBlocks(
        tuple(call.name for call in run.calls), block_calls(run.calls), run.reader, influence, others
    )


def _on_the_path(runs: Sequence[CallRun]) -> CallRun | None:
    """Of streams that carry everything the longest that is no detail; of equal ones the outer, the first."""
    most = max((run.parameters() for run in runs), default=0)
    whole = [run for run in runs if run.parameters() >= COVERS * most]
    depth = max(map(len, whole), default=0)
    longest = [run for run in whole if len(run) == depth]
    return min(_outer(longest), key=lambda run: run.calls[0].began, default=None)


def _outer(runs: Sequence[CallRun]) -> list[CallRun]:
    """The runs that do not happen inside another one."""
    return [run for run in runs if not any(run.inside(other) for other in runs if other is not run)]


def _strongest(
    model: nn.Module, runs: Sequence[CallRun], discovered: dict[int, DiscoveredBlocks], graph: Bottlenecks
) -> CallRun:
    """Of streams side by side the one with the greatest influence; an error if another one is alike."""

    def influence(run: CallRun) -> float:
        value = discovered[id(run)].influence
        return value if math.isfinite(value) else 0.0

    strongest = max(map(influence, runs))
    strong = [run for run in runs if influence(run) >= ALIKE * strongest]
    best = max(strong, key=lambda run: (len(run), influence(run)))
    rivals = [run for run in strong if len(run) == len(best)]
    alike = [run for run in rivals if run is best or not _in_series(run, best, graph)]
    if len(alike) == 1:
        return best
    listed = "; ".join(_listed(model, discovered[id(run)]) for run in alike)
    raise AmbiguousStream(
        f"{type(model).__name__} has {len(alike)} runs of blocks that could be its stream: {listed}.\n"
        "The states of one are not those of the other. Pass one of them.",
        tuple(tuple(dict.fromkeys(discovered[id(run)].names)) for run in alike),
    )


def _in_series(run: CallRun, other: CallRun, graph: Bottlenecks) -> bool:
    """Whether one run begins with what the other one made: they are not side by side."""
    pairs = ((run, other), (other, run))
    return any(graph.follows(later.calls[0].entry, earlier.calls[-1].exit_edge) for later, earlier in pairs)


def _listed(model: nn.Module, stream: DiscoveredBlocks) -> str:
    return f"{stream.as_option(model)} ({stream.title})"


def influences_of(runs: Sequence[CallRun], logits: Tensor) -> list[float]:
    """The influence of each run's states on the logits: the median of ‖h_l‖·‖g_l‖/‖e‖ over its states after h_0.

    Labels are not known. The error e at the logits is drawn from a fixed generator instead: s_l is in units of it, so
    only its direction counts. g_l = (∂logits/∂h_l)ᵀ e, and the norms are over the whole batch. h_0 is left out because
    streams side by side may begin with the same tensor. One backward pass; NaN where it fails.
    """
    if not logits.requires_grad:
        return [math.nan] * len(runs)
    error = torch.randn(logits.shape, generator=torch.Generator().manual_seed(0)).to(logits)
    states = {}
    for run in runs:
        entries = [(call.entry, call.entered) for call in run.calls[1:]]
        last = run.calls[-1]
        for edge, state in [*entries, (last.exit_edge, last.left)]:
            if edge is not None and state is not None:
                states[edge] = state.detach()
    edges = [GradientEdge(*edge) for edge in states]
    try:
        gradients = torch.autograd.grad(logits, edges, error, allow_unused=True)
    except (RuntimeError, NotImplementedError, AttributeError, TypeError):  # a backward pass of its own
        return [math.nan] * len(runs)
    size = float(error.norm())
    sensitivity = {
        edge: 0.0 if gradient is None else float(states[edge].norm() * gradient.norm()) / size
        for edge, gradient in zip(states, gradients, strict=True)
    }
    return [_median([sensitivity[edge] for edge in _after_the_first(run) if edge in sensitivity]) for run in runs]


def _after_the_first(run: CallRun) -> list[object]:
    return [*(call.entry for call in run.calls[1:]), run.calls[-1].exit_edge]


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2] if values else math.nan


def _without_a_stream(model: nn.Module) -> ModelMismatch:
    return ModelMismatch(
        f"{type(model).__name__} has no recognisable stream: it has neither `return_hidden=True` nor embed, blocks and "
        "read-out, and its forward pass has no run of blocks of one type.\n"
        "Without the states between the blocks there is nothing to audit. "
        f"Pass blocks= the path of its block list, or a list of module names. {block_lists(model)}"
    )
