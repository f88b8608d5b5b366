"""Context managers that restore a model: its modes, buffers, gradients and precision, and the random state."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy
import torch
from torch import Tensor, nn

from creditscope.batch import Batch, each_tensor
from creditscope.randomness import forked_rng
from creditscope.stream.unwrap import as_written


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the block; modes, buffers and random state are restored afterwards."""
    modes = [(module, module.training, dict(module._buffers)) for module in model.modules()]
    own = {id(buffer): buffer for *_, buffers in modes for buffer in buffers.values() if buffer is not None}
    values = [(buffer, buffer.detach().clone()) for buffer in own.values()]
    with torch.inference_mode(False), as_written(model), forked_rng():
        try:
            for module, training, _ in modes:
                if training:
                    module.training = False
            yield
        finally:
            for module, training, buffers in modes:
                if module.training is not training:
                    module.training = training
                module._buffers.clear()
                module._buffers.update(buffers)
            for buffer, before in values:
                if not torch.equal(buffer, before):  # a needless write would invalidate a backward pass in progress
                    with torch.no_grad():
                        buffer.copy_(before)


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the block; the mode of every module is restored afterwards."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def in_float64(model: nn.Module) -> Iterator[None]:
    """The model itself in float64; its own tensors are restored in any case."""
    tensors = [tensor for tensor in (*model.parameters(), *model.buffers()) if tensor.is_floating_point()]
    own = [tensor.data for tensor in tensors]
    try:
        for tensor in tensors:
            tensor.data = tensor.data.double()
        yield
    finally:
        for tensor, data in zip(tensors, own, strict=True):
            tensor.data = data


@contextmanager
def float64_copies(model: nn.Module) -> Iterator[None]:
    """Float64 copies in place of the model's tensors, which are not changed.

    A graph in progress, or a wrapper that waits for gradients, keeps references to the tensors themselves.
    """
    copies: dict[int, nn.Parameter] = {}
    own = [(module, dict(module._parameters), dict(module._buffers)) for module in model.modules()]
    try:
        for module, parameters, buffers in own:
            for name, parameter in parameters.items():
                if parameter is not None and parameter.is_floating_point():
                    copied = nn.Parameter(parameter.detach().double(), parameter.requires_grad)
                    setattr(module, name, copies.setdefault(id(parameter), copied))
            for name, buffer in buffers.items():
                if buffer is not None and buffer.is_floating_point():
                    module._buffers[name] = buffer.detach().double()
        yield
    finally:
        for module, parameters, buffers in own:
            for name, parameter in parameters.items():
                setattr(module, name, parameter)
            module._buffers.update(buffers)


def float64_size(model: nn.Module) -> int:
    """The bytes that float64 copies of a model's tensors take."""
    tensors = (*model.parameters(), *model.buffers())
    return 8 * sum(tensor.numel() for tensor in tensors if tensor.is_floating_point())


def as_float64(batch: Batch) -> Batch:
    """The batch with its floating-point tensors in float64."""

    def widened(tensor: Tensor) -> Tensor:
        return tensor.double() if tensor.is_floating_point() else tensor

    return Batch(each_tensor(batch.inputs, widened), widened(batch.labels))


@contextmanager
def constant_parameters(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Parameters without gradients inside the block: autograd then keeps nothing that only their gradients need."""
    trained = _trained(modules)
    try:
        for parameter in trained:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_()


def _trained(modules: Sequence[nn.Module]) -> list[nn.Parameter]:
    """The parameters that require gradients, as `parameters()` finds them, in a tenth of its time: once per batch."""
    seen, waiting, parameters = set(modules), list(modules), dict[int, nn.Parameter]()
    for module in waiting:  # grows on the way
        parameters.update((id(p), p) for p in module._parameters.values() if p is not None and p.requires_grad)
        for child in module._modules.values():
            if child is not None and child not in seen:
                seen.add(child)
                waiting.append(child)
    return list(parameters.values())


@contextmanager
def own_gradients(model: nn.Module) -> Iterator[None]:
    """Restore the .grad of every parameter: a credit function may call backward()."""
    before = [(p, p.grad, None if p.grad is None else p.grad.clone()) for p in model.parameters()]
    try:
        yield
    finally:
        for parameter, gradient, value in before:
            if gradient is not None and value is not None and not torch.equal(gradient, value):
                with torch.no_grad():
                    gradient.copy_(value)
            parameter.grad = gradient


@contextmanager
def preserved_rng() -> Iterator[None]:
    """Restore the random states of Python, NumPy and torch: a data loader may draw from any of them."""
    states = random.getstate(), numpy.random.get_state()  # noqa: NPY002  (data loaders draw from the legacy state)
    with forked_rng():
        try:
            yield
        finally:
            random.setstate(states[0])
            numpy.random.set_state(states[1])  # noqa: NPY002
