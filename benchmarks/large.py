"""The fixed price and the memory of an audit of a large model: a ViT of 12 blocks, width 384, 8 images of 224 pixels.

Bare work: forward and `loss.backward()` of the same batches. Every figure comes from a process of its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import creditscope

BATCH, PIXELS, PATCH, CLASSES = 8, 224, 16, 1000
WAYS = ("bare", "audit", "with every guard")


class Block(nn.Module):
    """Attention and MLP, each after its norm and added to the stream."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, h: Tensor) -> Tensor:
        """h + attention(h), then + MLP."""
        count, tokens, d = h.shape
        split = self.qkv(self.norms[0](h)).view(count, tokens, 3, self.heads, d // self.heads)
        mixed = F.scaled_dot_product_attention(*split.permute(2, 0, 3, 1, 4))
        h = h + self.out(mixed.transpose(1, 2).reshape(count, tokens, d))
        added: Tensor = self.mlp(self.norms[1](h))
        return h + added


class ViT(nn.Module):
    """As published, with a class token."""

    def __init__(self, d: int = 384, depth: int = 12, heads: int = 6) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, d, PATCH, PATCH)
        self.token = nn.Parameter(torch.zeros(1, 1, d))
        self.places = nn.Parameter(0.02 * torch.randn(1, (PIXELS // PATCH) ** 2 + 1, d))
        self.layers = nn.ModuleList(Block(d, heads) for _ in range(depth))
        self.last, self.classify = nn.LayerNorm(d), nn.Linear(d, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """The logits, read from the class token."""
        patches = self.patches(images).flatten(2).transpose(1, 2)
        h = torch.cat([self.token.expand(len(images), -1, -1), patches], 1) + self.places
        for layer in self.layers:
            h = layer(h)
        logits: Tensor = self.classify(self.last(h)[:, 0])
        return logits


def batches(count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Random images, made one batch at a time."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        images = torch.randn(BATCH, 3, PIXELS, PIXELS, generator=generator)
        yield images, torch.randint(CLASSES, (BATCH,), generator=generator)


def work(way: str, count: int) -> None:
    """Do it once; print the seconds of the process and its peak memory in MiB."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = ViT().eval()
    before = time.process_time()
    if way == "bare":
        for images, labels in batches(count):
            F.cross_entropy(model(images), labels, reduction="sum").backward()
            model.zero_grad()
    else:
        creditscope.audit(model, batches(count), check_gradient=way == "with every guard")
    print(time.process_time() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def measured(repeats: int = 1) -> None:
    """The price of a batch and the fixed price, from 1 and 3 batches, in bare batches; peak memory of 3."""
    seconds: dict[tuple[str, int], list[float]] = {}
    peaks: dict[str, list[float]] = {}
    for _ in range(repeats):
        for way in WAYS:
            for count in (1, 3):
                command = [sys.executable, __file__, way, str(count)]
                answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
                seconds.setdefault((way, count), []).append(float(answer[0]))
                peaks.setdefault(way, []).append(float(answer[1]))
    bare = (median(seconds["bare", 3]) - median(seconds["bare", 1])) / 2
    print(f"bare batch of {BATCH}: {bare:.2f} s of the process, {max(peaks['bare']):.0f} MiB")
    for way in WAYS[1:]:
        each = (median(seconds[way, 3]) - median(seconds[way, 1])) / 2
        fixed = median(seconds[way, 1]) - each
        print(
            f"  {way:18} {each / bare:.2f} bare batches each, {fixed / bare:.2f} at once   (limit 2), "
            f"peak {max(peaks[way]) / max(peaks['bare']):.2f} x bare   (limit 1.15)"
        )


if __name__ == "__main__":
    if len(sys.argv) == 3:
        work(sys.argv[1], int(sys.argv[2]))
    else:
        measured()
