"""What does a step of EP and of the bridges cost?  In bare forward passes and in DFA steps, on one thread."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from _timing import interleaved, ratio

from creditscope.batch import Batch
from creditscope.methods import methods
from creditscope.methods.ep import EquilibriumPropagation
from creditscope.methods.rule import CreditRule, Moment
from creditscope.networks.build import build

BATCH, INPUTS, CLASSES = 128, 3072, 10
PASSES = 10  # bare forward passes in one measurement
REPEATS = 15


@dataclass(frozen=True)
class Result:
    """One ratio with its ceiling."""

    name: str
    measured: float
    ceiling: float

    def __str__(self) -> str:
        kept = "kept" if self.measured <= self.ceiling else "MISSED"
        return f"{self.name:<70}at most {self.ceiling:>6.1f}{self.measured:>9.2f}   {kept}"


def batch() -> Batch:
    """128 vectors of noise."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (BATCH,), generator=generator)
    return Batch(torch.randn(BATCH, INPUTS, generator=generator), labels)


def forward(on: Batch) -> Callable[[], None]:
    """Bare forward passes, without a graph."""
    network = build("resmlp", INPUTS, CLASSES, 0)

    def run() -> None:
        with torch.no_grad():
            for _ in range(PASSES):
                network(on.inputs)

    return run


def step(rule: CreditRule, on: Batch) -> Callable[[], None]:
    """One training step of a rule on a network of its own: auxiliary update, credit, AdamW."""
    network, generator = build("resmlp", INPUTS, CLASSES, 0).train(), torch.Generator().manual_seed(1)
    feedback = rule.feedback(network, on, generator)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-5, fused=True)
    named = dict(network.named_parameters())

    def run() -> None:
        gradients = rule.learn(network, feedback, on, Moment(0.5, generator)).gradients
        for name, parameter in named.items():
            parameter.grad = gradients.get(name)
        optimiser.step()

    return run


def results() -> list[Result]:
    """All ratios, from one interleaved run."""
    on, one, two = batch(), EquilibriumPropagation(), EquilibriumPropagation(two_sided=True)
    ways = {
        "forward": forward(on),
        "dfa": step(methods["dfa"](), on),
        "ep": step(one, on),
        "ep, two-sided": step(two, on),
        "state_bridge": step(methods["state_bridge"](), on),
        "credit_bridge": step(methods["credit_bridge"](), on),
    }
    taken = interleaved(ways, REPEATS, time.process_time)
    budget = {"ep": 1.3 * (4 + 2 * one.steps), "ep, two-sided": 1.3 * (4 + 4 * two.steps)}
    passes = [
        Result(
            f"a step of {name}, T = {one.steps}, in bare forward passes", PASSES * ratio(taken, name, "forward"), most
        )
        for name, most in budget.items()
    ]
    bridges = [
        Result(f"a step of {name}, in steps of dfa", ratio(taken, name, "dfa"), 3.5)
        for name in ("state_bridge", "credit_bridge")
    ]
    return passes + bridges


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    found = results()
    print(f"resmlp d = 256, L = 4, {INPUTS} inputs, batch {BATCH}; medians of {REPEATS} interleaved repeats")
    print(f"torch {torch.__version__}, one thread, load {os.getloadavg()[0]:.1f}; seconds of the process itself\n")
    for result in found:
        print(result)


if __name__ == "__main__":
    main()
