"""The module calls of one forward pass: their order, their tensors, and which of them depend on which."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.stream.hooks import entering, first_floating
from creditscope.stream.states import called


@dataclass(slots=True, eq=False)
class Call:
    """One call of a module: its place in the order of calls, its input and its output."""

    name: str
    module: nn.Module
    began: int
    entered: Tensor | None
    ended: int = 0
    left: Tensor | None = None

    @property
    def keeps(self) -> bool:
        """Whether the output has the shape of the input."""
        return self.entered is not None and self.left is not None and self.entered.shape == self.left.shape


@dataclass(slots=True, eq=False)
class ForwardCalls:
    """One forward pass; `calls` holds the modules that ran exactly once, with a tensor as input and as output."""

    model: nn.Module
    inputs: Any
    whole: Call
    calls: list[Call] = field(default_factory=list)


def record_calls(model: nn.Module, inputs: Any) -> ForwardCalls:
    """Run the model once with a hook on every module; the hooks are removed afterwards."""
    calls: dict[str, list[Call]] = {}
    clock = iter(range(1 << 62))

    def before(name: str, module: nn.Module, args: Any, kwargs: Any) -> None:
        entered = first_floating(args)
        entered = first_floating(kwargs) if entered is None else entered
        calls.setdefault(name, []).append(Call(name, module, next(clock), entered))

    def after(name: str, output: Any) -> None:
        call = calls[name][-1]
        call.ended, call.left = next(clock), first_floating(output)

    with torch.no_grad(), ExitStack() as stack:
        for name, module in model.named_modules():
            begin = module.register_forward_pre_hook(
                lambda module, args, kwargs, name=name: before(name, module, args, kwargs), with_kwargs=True
            )
            end = module.register_forward_hook(lambda module, args, output, name=name: after(name, output))
            stack.callback(begin.remove)
            stack.callback(end.remove)
        called(model, inputs)
    once = [of_module[0] for name, of_module in calls.items() if name and len(of_module) == 1]
    return ForwardCalls(
        model, inputs, calls[""][0], [call for call in once if call.entered is not None and call.left is not None]
    )


def in_line(recorded: ForwardCalls, blocks: Sequence[nn.Module], joints: Sequence[int]) -> bool:
    """Whether, at these joints, the input of the next block (or the output of the model) depends on this block alone.

    The graph is cut at the input of every block, so that it shows which block depends on which.
    """
    entered: list[Tensor] = []
    roots: list[Tensor] = []

    def cut(state: Tensor) -> Tensor:
        entered.append(state)
        roots.append(state.detach().requires_grad_())
        return roots[-1].clone()  # the block may write into it

    with torch.enable_grad(), ExitStack() as stack:
        for block in blocks:
            hook = block.register_forward_pre_hook(
                lambda module, args, kwargs: entering(args, kwargs, cut, type(module).__name__)[:2], with_kwargs=True
            )
            stack.callback(hook.remove)
        left = first_floating(called(recorded.model, recorded.inputs))
    if left is None or len(roots) != len(blocks):
        return False
    followers = [*entered[1:], left]
    return all(_reached(followers[joint], roots) == {joint} for joint in joints)


def _reached(tensor: Tensor, roots: Sequence[Tensor]) -> set[int]:
    """Which of the roots a tensor was computed from, read off its graph; no backward pass is run."""
    index = {id(root): number for number, root in enumerate(roots)}
    reached: set[int] = set()
    visited: set[Any] = set()
    waiting: list[Any] = [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None and id(variable) in index:
            reached.add(index[id(variable)])
        waiting.extend(following for following, _ in node.next_functions)
    return reached
