"""Networks as users of the published protocol write them, and random batches for them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from creditscope.networks.build import build

FEATURES, TOKENS, WIDTH, CLASSES = 20, 5, 12, 4


def branch(width: int, generator: torch.Generator) -> nn.Sequential:
    block = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
    draw(block, generator)
    return block


def draw(module: nn.Module, generator: torch.Generator) -> None:
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, 0, 0.3, generator=generator)
            nn.init.normal_(layer.bias, 0, 0.1, generator=generator)


class Parts(nn.Module):
    """embed, blocks that return f_l only, out_ln, out_head; it does not show its states."""

    def __init__(self, seed: int = 0, depth: int = 3) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.embed = nn.Linear(FEATURES, WIDTH)
        self.blocks = nn.ModuleList(branch(WIDTH, generator) for _ in range(depth))
        self.out_ln = nn.LayerNorm(WIDTH)
        self.out_head = nn.Linear(WIDTH, CLASSES)
        draw(self, generator)

    def states(self, x: Tensor) -> list[Tensor]:
        hiddens = [self.embed(x)]
        for block in self.blocks:
            hiddens.append(hiddens[-1] + block(hiddens[-1]))
        return hiddens

    def forward(self, x: Tensor) -> Tensor:
        return self.out_head(self.out_ln(self.states(x)[-1]))


class Contract(Parts):
    """The same, showing its states on request."""

    def forward(self, x: Tensor, return_hidden: bool = False) -> Tensor | tuple[Tensor, list[Tensor]]:
        hiddens = self.states(x)
        logits = self.out_head(self.out_ln(hiddens[-1]))
        return (logits, hiddens) if return_hidden else logits


class Patches(nn.Module):
    """patch_embed gives tokens, norm and head read the first; mixing over tokens in the blocks."""

    def __init__(self, seed: int = 0, depth: int = 3) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.patch_embed = nn.Sequential(nn.Unflatten(1, (TOKENS, FEATURES // TOKENS)), nn.Linear(4, WIDTH))
        self.blocks = nn.ModuleList(Mixing(generator) for _ in range(depth))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)
        draw(self, generator)

    def forward(self, x: Tensor, return_hidden: bool = False) -> Tensor | tuple[Tensor, list[Tensor]]:
        hiddens = [self.patch_embed(x)]
        for block in self.blocks:
            hiddens.append(hiddens[-1] + block(hiddens[-1]))
        logits = self.head(self.norm(hiddens[-1][:, 0]))
        return (logits, hiddens) if return_hidden else logits


class Mixing(nn.Module):
    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.inner = branch(WIDTH, generator)

    def forward(self, h: Tensor) -> Tensor:
        return self.inner(h + h.mean(1, keepdim=True))


class Noisy(Contract):
    """BatchNorm and dropout in the stream: training mode would change both numbers and buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks[1] = nn.Sequential(nn.BatchNorm1d(WIDTH), nn.Dropout(0.5), self.blocks[1])
        self.blocks[1][0].running_var.fill_(3.0)


def residual_mlp(seed: int = 1, depth: int = 3) -> nn.Module:
    return build("resmlp", FEATURES, CLASSES, seed, d=WIDTH, depth=depth)


def exploded(factor: float = 1e9) -> nn.Module:
    """A residual MLP whose last weights were multiplied."""
    net = residual_mlp()
    with torch.no_grad():
        for block in net.blocks:
            block.w2.weight.mul_(factor)
    return net


def with_nan(net: nn.Module) -> nn.Module:
    with torch.no_grad():
        next(iter(net.blocks[0].parameters())).fill_(float("nan"))
    return net


def random_batches(sizes: list[int], seed: int = 5) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(n, FEATURES, generator=generator), torch.randint(CLASSES, (n,), generator=generator))
        for n in sizes
    ]
