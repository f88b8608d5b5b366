"""What does a monitor cost beside the epoch that it watches?

Epoch: 391 steps of 128 CIFAR-10-sized images, backprop by the loop that everybody writes, no augmentation (which would
make the epoch longer). Monitor: `step()` with 2 batches of 128, and with credit beside it, which adds Γ and D5 to D9.
"""

from __future__ import annotations

import time
from statistics import median

import torch
import torch.nn.functional as F
from _timing import interleaved, ratio
from torch import Tensor

import creditscope
from creditscope.batch import Batch
from creditscope.networks.build import build

IMAGES, STEPS, SHAPE, CLASSES = 128, 391, (3, 32, 32), 10
LIMIT = 0.05


def batches(count: int) -> list[tuple[Tensor, Tensor]]:
    """Random images."""
    generator = torch.Generator().manual_seed(0)
    return [
        (torch.randn(IMAGES, *SHAPE, generator=generator), torch.randint(CLASSES, (IMAGES,), generator=generator))
        for _ in range(count)
    ]


def cost(repeats: int = 5) -> None:
    """One epoch, one step of the monitor, and one with credit, in turns, on one thread."""
    torch.set_num_threads(1)
    network = build("resmlp", SHAPE, CLASSES, seed=0)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.01)
    shown, held_out = batches(8), batches(2)
    feedback = torch.randn(5, CLASSES, 256, generator=torch.Generator().manual_seed(1))

    def credit(batch: Batch) -> list[Tensor]:
        with torch.no_grad():
            error = F.softmax(network(batch.inputs), 1) - F.one_hot(batch.labels, CLASSES)
            return [error @ matrix for matrix in feedback]

    def epoch() -> None:
        for step in range(STEPS):
            inputs, labels = shown[step % len(shown)]
            optimiser.zero_grad()
            F.cross_entropy(network(inputs), labels).backward()
            optimiser.step()

    started = time.process_time()
    watching = creditscope.Monitor(network, held_out, on_firing=lambda finding, epoch: None)
    watching.step(0)
    first = time.process_time() - started
    with_credit = creditscope.Monitor(network, held_out, credit=credit, on_firing=lambda finding, epoch: None)
    ways = {"epoch": epoch, "monitor": lambda: watching.step(1), "with credit": lambda: with_credit.step(1)}
    taken = interleaved(ways, repeats, time.process_time)
    print(f"epoch, {STEPS} steps of {IMAGES}: {median(taken['epoch']):.2f} s of the processor (median of {repeats})")
    for name in ("monitor", "with credit"):
        share = ratio(taken, name, "epoch")
        spent = f"{1e3 * median(taken[name]):6.1f} ms  {100 * share:.2f} % of the epoch"
        bound = f"   (limit {100 * LIMIT:g} %)" if name == "monitor" else ""
        print(f"  {name:12} {spent}{bound}")
    print(f"  first step   {1e3 * first:6.1f} ms  with the gradient check and whatever is loaded once")


if __name__ == "__main__":
    cost()
