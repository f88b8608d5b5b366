"""What does a training step of every registered rule cost?  In steps of backprop, on one thread."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from _timing import interleaved, ratio

from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.methods import methods
from creditscope.methods.descent import Descent, laid_out
from creditscope.methods.rule import CreditRule, Moment
from creditscope.networks.build import build

BATCH, INPUTS, CLASSES = 128, 3072, 10
NETWORKS = ("resmlp", "mlp")  # a rule is measured on the first that it supports
REPEATS = 9
STEPS = 4  # in one measurement; a whole period of a rule that does something every so many steps
PC_STEPS = methods["predictive_coding"]().steps  # type: ignore[attr-defined]
CEILINGS = {
    "sign_symmetry": 1.25,
    "kolen_pollack": 1.35,
    "drtp": 1.05,
    "local_loss": 1.35,
    "forward_gradient": 1.6,
    "predictive_coding": (2 + 1.6 * PC_STEPS) / 3,
}


@dataclass(frozen=True)
class Result:
    """The cost of one rule, with its ceiling where it has one."""

    name: str
    network: str
    measured: float
    ceiling: float | None

    def __str__(self) -> str:
        said = "" if self.ceiling is None else f"at most {self.ceiling:.2f}"
        kept = "" if self.ceiling is None else "kept" if self.measured <= self.ceiling else "MISSED"
        return f"{self.name:<28}{self.network:<10}{self.measured:>8.2f}   {said:<14}{kept}"


def batch() -> Batch:
    """128 vectors of noise."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (BATCH,), generator=generator)
    return Batch(torch.randn(BATCH, INPUTS, generator=generator), labels)


def period(rule: CreditRule) -> int:
    """Steps in one measurement of a rule."""
    return int(getattr(rule, "every", STEPS))


def steps(rule: CreditRule, on: Batch, network_name: str) -> Callable[[], None]:
    """Training steps of a rule on a network of its own: auxiliary update, credit, AdamW."""
    network, generator = build(network_name, INPUTS, CLASSES, 0).train(), torch.Generator().manual_seed(1)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-5, weight_decay=0.01, fused=True)
    descent = Descent.of(optimiser)
    feedback = rule.equip(rule.feedback(network, on, generator), descent)
    named = dict(network.named_parameters())

    def run() -> None:
        for _ in range(period(rule)):
            gradients = rule.learn(network, feedback, on, Moment(0.5, generator, descent=descent)).gradients
            for name, parameter in named.items():
                parameter.grad = laid_out(gradients.get(name), parameter)
            optimiser.step()

    return run


def first_supported(rule: CreditRule, on: Batch) -> tuple[str, Callable[[], None]]:
    """The first of the networks that the rule takes, and its steps there."""
    for name in NETWORKS:
        try:
            return name, steps(rule, on, name)
        except InvalidInput:
            continue
    raise InvalidInput(
        f"{rule.name} takes none of {', '.join(NETWORKS)}. Add a network that it takes to the benchmark."
    )


def results() -> list[Result]:
    """Every rule with its default options, from one interleaved run."""
    on = batch()
    ways = {f"bp on {network}": steps(methods["bp"](), on, network) for network in NETWORKS}
    places = {}
    for name in methods:
        places[name], ways[name] = first_supported(methods[name](), on)
    taken = interleaved(ways, REPEATS, time.process_time)
    costs = {
        name: ratio(taken, name, f"bp on {place}") * STEPS / period(methods[name]()) for name, place in places.items()
    }
    return [Result(name, places[name], cost, CEILINGS.get(name)) for name, cost in costs.items()]


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    print(f"a step in backprop steps, batch {BATCH}, {INPUTS} inputs, one thread, {os.cpu_count()} cores")
    for result in results():
        print(result)


if __name__ == "__main__":
    main()
