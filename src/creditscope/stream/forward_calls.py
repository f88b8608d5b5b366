"""What happens inside a model in one forward pass?  Which module ran when, on what, and who depends on whom."""

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
    """One module at work: when it began and ended, what entered and what left."""

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
class Observed:
    """One forward pass of a model; `calls` are the modules that ran exactly once and took and gave tensors."""

    model: nn.Module
    inputs: Any
    whole: Call
    calls: list[Call] = field(default_factory=list)


def observe(model: nn.Module, inputs: Any) -> Observed:
    """Run the model once, with a hook on every module that is gone afterwards."""
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
    once = [made[0] for name, made in calls.items() if name and len(made) == 1]
    return Observed(
        model, inputs, calls[""][0], [call for call in once if call.entered is not None and call.left is not None]
    )


def in_line(seen: Observed, blocks: Sequence[nn.Module], joints: Sequence[int]) -> bool:
    """Whether, at these joints, what enters the next block (or leaves the model) depends on this block alone.

    Every block gets its input cut from what came before; the graph then tells who depends on whom.
    """
    entered: list[Tensor] = []
    roots: list[Tensor] = []

    def cut(state: Tensor) -> Tensor:
        entered.append(state)
        roots.append(state.detach().requires_grad_())
        return roots[-1].clone()  # which may be written into

    with torch.enable_grad(), ExitStack() as stack:
        for block in blocks:
            hook = block.register_forward_pre_hook(
                lambda module, args, kwargs: entering(args, kwargs, cut, type(module).__name__)[:2], with_kwargs=True
            )
            stack.callback(hook.remove)
        left = first_floating(called(seen.model, seen.inputs))
    if left is None or len(roots) != len(blocks):
        return False
    followers = [*entered[1:], left]
    return all(_reached(followers[joint], roots) == {joint} for joint in joints)


def _reached(tensor: Tensor, roots: Sequence[Tensor]) -> set[int]:
    """Which of the roots a tensor was computed from, read off its graph; no backward pass is run."""
    index = {id(root): number for number, root in enumerate(roots)}
    found: set[int] = set()
    visited: set[Any] = set()
    waiting: list[Any] = [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None and id(variable) in index:
            found.add(index[id(variable)])
        waiting.extend(following for following, _ in node.next_functions)
    return found
