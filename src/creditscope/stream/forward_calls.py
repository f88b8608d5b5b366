"""The module calls of one forward pass: their order, their tensors, and which of them depend on which."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from creditscope.stream.block_pass import functions_of
from creditscope.stream.states import called
from creditscope.stream.values import entering, first_floating, floating

Edge = tuple[Any, int]  # a tensor's place in the graph: the function that made it, and which of its outputs it is


@dataclass(slots=True, eq=False)
class Call:
    """One call of a module: its place in the order of calls, the state that entered and the one that left.

    ordinal   0 for the module's first call
    argument  which of the floating-point `arguments` is the state
    result    which of the floating-point `results` is the next state
    left_at   autograd's clock when the module returned
    """

    name: str
    module: nn.Module
    ordinal: int
    began: int
    arguments: tuple[Tensor, ...]
    ended: int = 0
    results: tuple[Tensor, ...] = ()
    argument: int = 0
    result: int = 0
    entry_edges: tuple[Edge | None, ...] = ()
    exit_edges: tuple[Edge | None, ...] = ()
    left_at: int = 0

    @property
    def entered(self) -> Tensor | None:
        """The state before the call."""
        return self.arguments[self.argument] if self.arguments else None

    @property
    def entry(self) -> Edge | None:
        """The place of that state in the graph, as it was when the module was called."""
        return self.entry_edges[self.argument] if self.entry_edges else None

    @property
    def left(self) -> Tensor | None:
        """The state after the call."""
        return self.results[self.result] if self.results else None

    @property
    def exit_edge(self) -> Edge | None:
        """The place of that state in the graph."""
        return self.exit_edges[self.result] if self.exit_edges else None

    @property
    def keeps(self) -> bool:
        """Whether the output has the shape of the input."""
        return self.entered is not None and self.left is not None and self.entered.shape == self.left.shape


@dataclass(slots=True, eq=False)
class ForwardCalls:
    """One forward pass with its graph; `calls` holds the calls that take and return a tensor."""

    model: nn.Module
    inputs: Any
    whole: Call
    calls: list[Call] = field(default_factory=list)
    answer: Any = None
    sources: tuple[Edge, ...] = ()  # the model's inputs, and what embeddings made of inputs that are no real numbers


def record_calls(model: nn.Module, inputs: Any) -> ForwardCalls:
    """Run the model once with a hook on every module; the hooks are removed afterwards."""
    calls: dict[str, list[Call]] = {}
    clock = iter(range(1 << 62))

    def before(name: str, module: nn.Module, args: Any, kwargs: Any) -> None:
        arguments = (*floating(args), *floating(kwargs))
        of_module = calls.setdefault(name, [])
        edges = tuple(map(edge_of, arguments))
        of_module.append(Call(name, module, len(of_module), next(clock), arguments, entry_edges=edges))

    def after(name: str, output: Any) -> None:
        call = next(call for call in reversed(calls[name]) if not call.ended)
        call.ended, call.results = next(clock), tuple(floating(output))
        if call.left is not None and not call.arguments and not call.left.requires_grad and torch.is_grad_enabled():
            call.left.requires_grad_()
        call.exit_edges = tuple(map(edge_of, call.results))
        call.left_at = torch.autograd._get_sequence_nr()  # type: ignore[attr-defined]

    with torch.enable_grad(), ExitStack() as stack:
        for name, module in model.named_modules():
            begin = module.register_forward_pre_hook(
                lambda module, args, kwargs, name=name: before(name, module, args, kwargs), with_kwargs=True
            )
            end = module.register_forward_hook(lambda module, args, output, name=name: after(name, output))
            stack.callback(begin.remove)
            stack.callback(end.remove)
        answer = called(model, inputs)
    whole = calls.pop("")[0]
    listed = [call for of_module in calls.values() for call in of_module]
    embedded = (call.exit_edge for call in (whole, *listed) if not call.arguments)
    sources = tuple(edge for edge in (*whole.entry_edges, *embedded) if edge is not None)
    complete = [call for call in listed if call.entered is not None and call.left is not None]
    return ForwardCalls(model, inputs, whole, complete, answer, sources)


def edge_of(tensor: Tensor) -> Edge | None:
    """A tensor's place in the graph; None if nothing is differentiated by it."""
    if not tensor.requires_grad:
        return None
    edge: GradientEdge = get_gradient_edge(tensor)
    return edge.node, edge.output_nr


def in_line(recorded: ForwardCalls, run: Sequence[Call], joints: Sequence[int]) -> bool:
    """Whether, at these joints, the input of the next call (or the output of the model) depends on this call alone.

    The graph is cut at the input of every call of these modules, so that it shows which call depends on which.
    """
    entered: list[Tensor] = []
    roots: list[Tensor] = []
    argument = run[0].argument
    modules = {id(call.module): call.module for call in run}
    skipped = {key: min(call.ordinal for call in run if id(call.module) == key) for key in modules}

    def cut(state: Tensor) -> Tensor:
        entered.append(state)
        roots.append(state.detach().requires_grad_())
        return roots[-1].clone()  # the block may write into it

    def before(module: nn.Module, args: Any, kwargs: Any) -> Any:
        if skipped[id(module)]:
            skipped[id(module)] -= 1
            return None
        return entering(args, kwargs, cut, type(module).__name__, argument)[:2]

    with torch.enable_grad(), ExitStack() as stack:
        for module in modules.values():
            stack.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
        left = first_floating(called(recorded.model, recorded.inputs))
    if left is None or len(roots) != len(run):
        return False
    followers = [*entered[1:], left]
    return all(_reached(followers[joint], roots) == {joint} for joint in joints)


def _reached(tensor: Tensor, roots: Sequence[Tensor]) -> set[int]:
    """Which of the roots a tensor was computed from, read off its graph; no backward pass is run."""
    index = {id(root): number for number, root in enumerate(roots)}
    variables = (getattr(function, "variable", None) for function in functions_of(tensor))
    return {index[id(variable)] for variable in variables if id(variable) in index}
