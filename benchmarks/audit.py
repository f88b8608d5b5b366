"""What does an audit cost beside the bare work, and does its memory grow with the number of batches?

Bare work: one forward pass and `autograd.grad` of the summed loss for the states, on the same batches.
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
from _timing import interleaved, ratio
from torch import Tensor

import creditscope
from creditscope.networks.build import build

IMAGES, SHAPE = 128, (3, 32, 32)


def batches(count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Random images, made one batch at a time."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        yield torch.randn(IMAGES, *SHAPE, generator=generator), torch.randint(10, (IMAGES,), generator=generator)


def cost(repeats: int = 41) -> None:
    """Audit against bare work, 10 batches of 128 on the d = 256, L = 4 network, one thread."""
    torch.set_num_threads(1)
    network = build("resmlp", SHAPE, 10, seed=0)
    held = list(batches(10))

    def bare() -> None:
        for inputs, labels in held:
            states = network.states(inputs)
            loss = F.cross_entropy(network.readout(states[-1]), labels, reduction="sum")
            torch.autograd.grad(loss, states)

    taken = interleaved(
        {
            "bare": bare,
            "audit": lambda: creditscope.audit(network, held, check_gradient=False),
            "with every guard": lambda: creditscope.audit(network, held),
        },
        repeats,
        time.process_time,
    )
    print(
        f"bare work, 10 batches of {IMAGES}: {1e3 * median(taken['bare']):.1f} ms of the process (median of {repeats})"
    )
    for name, limit in (("audit", 1.15), ("with every guard", 1.35)):
        print(f"  {name:18} {ratio(taken, name, 'bare'):.3f} x bare work   (limit {limit})")


def peak(count: int) -> None:
    """Audit `count` batches and print this process's peak memory in MiB."""
    torch.set_num_threads(1)
    network = build("resmlp", SHAPE, 10, seed=0)
    creditscope.audit(network, batches(2))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    creditscope.audit(network, batches(count))
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def memory() -> None:
    """Peak memory of 10 and of 1,000 batches, each in a process of its own, beyond an audit of two batches."""
    batch = IMAGES * 3072 * 4 / 2**20
    for count in (10, 1000):
        answer = subprocess.run(
            [sys.executable, __file__, "peak", str(count)], check=True, capture_output=True, text=True
        )
        norms = count * IMAGES * 11 * 8 / 2**20
        print(
            f"{count:5} batches: {float(answer.stdout):6.1f} MiB more than 2 batches need "
            f"(one batch {batch:.1f} MiB, per-sample norms {norms:.1f} MiB)"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["peak"]:
        peak(int(sys.argv[2]))
    else:
        cost()
        memory()
