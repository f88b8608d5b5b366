"""The weights of the blocks with their inputs, and changes of weights that the forward pass cannot notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from creditscope.stream.convolution import Convolution

Inputs = dict[nn.Parameter, list[Tensor]]


class Watching(TorchFunctionMode):
    """Records the inputs that every watched weight is multiplied with in F.linear and F.conv2d, one vector per row.

    A convolution is a product with the unfolded patches of its input.
    """

    def __init__(self, weights: Sequence[nn.Parameter]) -> None:
        super().__init__()
        self._weights = {id(weight): weight for weight in weights}
        self.inputs: Inputs = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.linear or func is F.conv2d:
            weight = self._weights.get(id(args[1] if len(args) > 1 else kwargs.get("weight")))
            if weight is not None:
                rows = args[0].flatten(0, -2) if func is F.linear else Convolution.of(*args, **kwargs).patches()
                self.inputs.setdefault(weight, []).append(rows.detach())
        return func(*args, **kwargs)


def block_weights(blocks: Sequence[nn.Module]) -> list[nn.Parameter]:
    """Every matrix or filter among the parameters of the blocks."""
    weights = {id(p): p for block in blocks for p in block.parameters() if p.dim() >= 2 and p.is_floating_point()}
    return list(weights.values())


def fitting_images(rows: Mapping[nn.Parameter, int], most: int) -> tuple[int, list[nn.Parameter]]:
    """How many images leave a null space of the weights' inputs, and which weights have one.

    A weight whose inputs have `width` numbers and `rows` vectors per image takes width/4 vectors, or, if one image
    has more, as many images as leave one direction free.
    """
    room = {}
    for weight, per_image in rows.items():
        width = weight[0].numel()
        images = width // 4 // per_image or (width - 1) // per_image
        if images:
            room[weight] = images
    return min((most, *room.values())) if room else 0, list(room)


def unseen_change(weight: nn.Parameter, inputs: Sequence[Tensor], generator: torch.Generator) -> Tensor:
    """Δ = R(I - QQᵀ), ‖Δ‖_F = ‖W‖_F, with Q an orthonormal basis of the inputs: Δx = 0 for each of them."""
    noise = random_change(weight, generator).double().flatten(1)
    basis = torch.linalg.qr(torch.cat(list(inputs)).double().T).Q
    for _ in range(2):  # the second projection removes what rounding left of the first
        noise = noise - (noise @ basis) @ basis.T
    return _as_large_as(weight, noise)


def random_change(weight: nn.Parameter, generator: torch.Generator) -> Tensor:
    """R with ‖R‖_F = ‖W‖_F."""
    noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64).to(weight.device)
    return _as_large_as(weight, noise)


def _as_large_as(weight: nn.Parameter, change: Tensor) -> Tensor:
    scale: Tensor = weight.detach().double().norm() / change.norm()
    return (change * scale).view_as(weight).to(weight.dtype)


@contextmanager
def changed(changes: Mapping[nn.Parameter, Tensor]) -> Iterator[None]:
    """The weights with their changes added; their own tensors are restored in any case."""
    own = {weight: weight.data for weight in changes}
    try:
        for weight, change in changes.items():
            weight.data = own[weight] + change
        yield
    finally:
        for weight, data in own.items():
            weight.data = data
