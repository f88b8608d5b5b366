"""The order of a state's axes: samples first, then tokens and features, or channels, height and width."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

Order = tuple[int, ...]  # the axes as they came, in the order in which they are read; () if they stay


def order_of(state: Tensor, taker: nn.Module, *, tokens_first: bool) -> Order:
    """How a state is turned: (T, N, d) and (N, C, T) to (N, T, d), (N, H, W, C) to (N, C, H, W).

    taker         the module that the state enters, or made it
    tokens_first  whether the second axis are the samples
    """
    if state.dim() == 3 and tokens_first:
        return (1, 0, 2)
    if state.dim() == 3 and state.shape[1] in channels(taker) and state.shape[2] not in features(taker):
        return (0, 2, 1)
    if state.dim() == 4 and _is_width(state.shape[3], taker) and not _is_width(state.shape[1], taker):
        return (0, 3, 1, 2)
    return ()


def turned(tensor: Tensor, order: Order) -> Tensor:
    """The tensor with its axes in this order."""
    return tensor.permute(order) if tensor.dim() == len(order) else tensor


def turned_back(tensor: Tensor, order: Order) -> Tensor:
    """The inverse of `turned`."""
    return turned(tensor, tuple(sorted(range(len(order)), key=order.__getitem__)))


def channels(module: nn.Module) -> set[int]:
    """The sizes that layers of a module take or return at the second axis: convolutions and batch norms."""
    convolutions = [layer for layer in module.modules() if isinstance(layer, _ConvNd)]
    norms = [layer.num_features for layer in module.modules() if isinstance(layer, _NormBase)]
    return {size for layer in convolutions for size in (layer.in_channels, layer.out_channels)} | set(norms)


def features(module: nn.Module) -> set[int]:
    """The sizes that all other layers with weights of a module take or return at the last axis."""
    others = [layer for layer in module.modules() if not isinstance(layer, _ConvNd | _NormBase)]
    return {size for layer in others for parameter in layer.parameters(recurse=False) for size in _sizes(parameter)}


def _sizes(parameter: nn.Parameter) -> Sequence[int]:
    return tuple(parameter.shape) if parameter.dim() in (1, 2) else ()


def _is_width(size: int, module: nn.Module) -> bool:
    """Whether a module has a bias or a gain of this size: channels have, positions do not."""
    return any(parameter.shape == (size,) for parameter in module.parameters())
