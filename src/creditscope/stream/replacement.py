"""A forward pass in which states are replaced at their borders: every stage alone, in one call of the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from creditscope.stream.values import entering, first_tensor, with_floating


@dataclass(slots=True)
class Arrivals:
    """The input of every block as it came, before it was replaced, and what every block returned."""

    entered: dict[int, Tensor] = field(default_factory=dict)
    outputs: dict[int, Tensor] = field(default_factory=dict)


@contextmanager
def replacing(
    blocks: Sequence[nn.Module], branches: Sequence[bool], states: Mapping[int, Tensor], *, reader: bool
) -> Iterator[Arrivals]:
    """Hooks that put states[l] in the place of h_l, in the axes of the model.

    Where block l is a branch, h + f(h) is formed outside of it: the block reads z_l, and after the last block z_L - h
    is returned in place of f, so that the sum is z_L. With a `reader` the last module is the one that reads h_L.
    """
    arrivals, last = Arrivals(), len(blocks) - 1

    def before(index: int, args: Any, kwargs: Any) -> Any:
        def replaced(state: Tensor) -> Tensor:
            arrivals.entered[index] = state
            return states.get(index, state)

        return entering(args, kwargs, replaced, f"block {index}")[:2]

    def after(index: int, output: Any) -> Any:
        arrivals.outputs[index] = first_tensor(output, f"block {index}")
        if index != last or reader or index + 1 not in states:
            return None
        final = states[index + 1]
        instead = final - arrivals.entered[index] if branches[index] else final  # the gradient into `entered` cancels
        return with_floating(output, lambda state: instead)[0]

    with ExitStack() as stack:
        for index, block in enumerate(blocks):
            begin = block.register_forward_pre_hook(
                lambda module, args, kwargs, index=index: before(index, args, kwargs), with_kwargs=True
            )
            end = block.register_forward_hook(lambda module, args, output, index=index: after(index, output))
            stack.callback(begin.remove)
            stack.callback(end.remove)
        yield arrivals


@contextmanager
def without_statistics(model: nn.Module) -> Iterator[None]:
    """BatchNorm in training mode uses the batch's statistics and keeps its running ones."""
    layers = [layer for layer in model.modules() if isinstance(layer, _BatchNorm) and layer.track_running_stats]
    try:
        for layer in layers:
            layer.track_running_stats = False
        yield
    finally:
        for layer in layers:
            layer.track_running_stats = True
