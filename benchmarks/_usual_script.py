"""DFA as a script would usually train it: images cropped one by one with PIL, one optimiser per block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageOps
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


class Images(Dataset[tuple[Tensor, int]]):
    """Every image for itself: pad, crop, mirror, to a tensor, standardise."""

    def __init__(self, pixels: Tensor, labels: Tensor) -> None:
        self.images = [Image.fromarray(image) for image in pixels.permute(0, 2, 3, 1).numpy()]
        self.labels = labels.tolist()
        self.mean, self.std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        padded = ImageOps.expand(self.images[index], 4)
        down, right = torch.randint(0, 9, (2,)).tolist()
        image = padded.crop((right, down, right + 32, down + 32))
        if torch.rand(1).item() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        tensor = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float().div(255)
        return tensor.sub_(self.mean).div_(self.std), self.labels[index]


def usual_steps(network: nn.Module, pixels: Tensor, labels: Tensor, batch_size: int) -> Iterator[float]:
    """One step after the other: forward, then every block's local loss and optimiser in turn."""
    loader = DataLoader(Images(pixels, labels), batch_size, shuffle=True, drop_last=True)
    stages = [network.embed, *network.blocks, nn.ModuleList([network.out_ln, network.out_head])]
    optimisers = [torch.optim.AdamW(stage.parameters(), lr=1e-3, weight_decay=0.01) for stage in stages]
    classes, d = network.out_head.weight.shape
    feedback = [torch.randn(classes, d) / classes**0.5 for _ in stages[:-1]]
    while True:
        for inputs, targets in loader:
            with torch.no_grad():
                _, states = network(inputs, return_hidden=True)
            state = states[-1].detach()
            loss = F.cross_entropy(network.out_head(network.out_ln(state)), targets)
            with torch.no_grad():
                logits = network.out_head(network.out_ln(state))
                error = logits.softmax(1) - F.one_hot(targets, classes)
            for optimiser in optimisers:
                optimiser.zero_grad()
            loss.backward()
            for index, matrix in enumerate(feedback):
                credit = error @ matrix
                credit = credit / (credit.square().mean(1, keepdim=True).sqrt() + 1e-8)
                output = network.blocks[index - 1](states[index - 1]) if index else network.embed(inputs.flatten(1))
                (output * credit).sum(1).mean().backward()
            for optimiser in optimisers:
                optimiser.step()
            yield loss.item()
