"""Networks as other people write them, random batches for them, and what must not change about them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.batch import Batch

FEATURES, WIDTH, CLASSES = 12, 16, 5


def draw(module: nn.Module, seed: int, scale: float = 1.0) -> nn.Module:
    """Weights and biases from a generator, with standard deviation scale/√fan_in."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, 0, scale / parameter[0].numel() ** 0.5, generator=generator)
        else:
            nn.init.normal_(parameter, 1.0, 0.1, generator=generator)
    return module


def images(count: int, seed: int = 0, shape: tuple[int, ...] = (FEATURES,)) -> Batch:
    """Gaussian inputs with random labels."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, *shape, generator=generator)
    return Batch(inputs, torch.randint(0, CLASSES, (count,), generator=generator))


def cut(batch: Batch, size: int) -> list[Batch]:
    """The same images in batches of `size`."""
    return [Batch(x, y) for x, y in zip(batch.inputs.split(size), batch.labels.split(size), strict=True)]


def batches(count: int, size: int, shape: tuple[int, ...] = (FEATURES,)) -> list[Batch]:
    """Disjoint random batches."""
    return cut(images(count * size, shape=shape), size)


def branch(width: int = WIDTH) -> nn.Sequential:
    """f(h) = W₂ tanh(W₁ LN(h))."""
    return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width))


class Branches(nn.Module):
    """h ← h + layer(h): the layers return the residual branch only, under a name of their own."""

    def __init__(
        self, depth: int = 3, *, seed: int = 0, scale: float = 1.0, layer: Callable[[], nn.Module] = branch
    ) -> None:
        super().__init__()
        self.inlet = nn.Linear(FEATURES, WIDTH)
        self.layers = nn.ModuleList(layer() for _ in range(depth))
        self.norm, self.outlet = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)
        draw(self, seed)
        draw(self.layers, seed + 1, scale)

    def readout(self, h: Tensor) -> Tensor:
        out: Tensor = self.outlet(self.norm(h))
        return out

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        for layer in self.layers:
            h = h + layer(h)
        return self.readout(h)


class Stages(Branches):
    """h ← h + f(h) inside each layer: the layers return the next state."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        for layer in self.layers:
            h = layer(h)
        return self.readout(h)


class Skip(nn.Module):
    """h + f(h)."""

    def __init__(self) -> None:
        super().__init__()
        self.f = branch()

    def forward(self, h: Tensor) -> Tensor:
        out: Tensor = h + self.f(h)
        return out


class Wrapped(nn.Module):
    """A branch whose answer comes in another form."""

    def __init__(self, wrap: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.f, self.wrap = branch(), wrap

    def forward(self, h: Tensor) -> Any:
        return self.wrap(self.f(h))


class Tokens(nn.Module):
    """(N, T, FEATURES) tokens, layers that mix them and return the next state, a read-out on the first."""

    def __init__(self, depth: int = 2, seed: int = 0) -> None:
        super().__init__()
        self.inlet = nn.Linear(FEATURES, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 2, 2 * WIDTH, dropout=0.1, batch_first=True, norm_first=True)
            for _ in range(depth)
        )
        self.outlet = nn.Linear(WIDTH, CLASSES)
        draw(self, seed)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        for layer in self.layers:
            h = layer(h)
        out: Tensor = self.outlet(h[:, 0])
        return out


def stages(depth: int = 3, **options: Any) -> Stages:
    """A network whose layers return the next state."""
    return Stages(depth, layer=Skip, **options)


@contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Everything about a model, and every random state, is afterwards what it was before."""
    before, after = _everything(model), {}
    yield
    after = _everything(model)
    assert list(before) == list(after)
    for key, value in before.items():
        assert value == after[key], f"{key} has changed"


def _everything(model: nn.Module) -> dict[str, Any]:
    found: dict[str, Any] = {"rng": bytes(torch.get_rng_state().numpy()), "random": random.getstate()}
    found["grad mode"] = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        data = tensor.detach().contiguous().view(-1)
        found[name] = (
            id(tensor),
            tensor.data_ptr(),
            tensor.dtype,
            tensor.requires_grad,
            None if tensor.grad is None else (id(tensor.grad), bytes(tensor.grad.view(torch.uint8).numpy())),
            bytes(data.view(torch.uint8).numpy()) if data.numel() else b"",
        )
    for name, module in model.named_modules():
        hooks = [key for key in vars(module) if key.endswith("_hooks") and vars(module)[key]]
        found[f"module {name}"] = (module.training, sorted(vars(module)), hooks, sorted(module._buffers))
    return found
