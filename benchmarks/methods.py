"""What does a training step of every registered rule cost?  In steps of backprop, on one thread.

python benchmarks/methods.py results/method_costs.json   also writes the figures that the docs show
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from _timing import interleaved, ratio

from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.files import write_text
from creditscope.methods import methods
from creditscope.methods.descent import Descent, laid_out
from creditscope.methods.rule import CreditRule, Moment
from creditscope.networks.build import build

BATCH, INPUTS, CLASSES = 128, 3072, 10
NETWORKS = ("resmlp", "mlp")  # a rule is measured on the first that it supports
REPEATS = 9
STEPS = 4  # in one measurement; a whole period of a rule that does something every so many steps
CEILINGS: dict[str, Callable[[Any], float]] = {  # of a rule, whatever its options
    "sign_symmetry": lambda rule: 1.25,
    "kolen_pollack": lambda rule: 1.35,
    "drtp": lambda rule: 1.05,
    "local_loss": lambda rule: 1.35,
    "forward_gradient": lambda rule: 1.6 * rule.draws,
    "predictive_coding": lambda rule: (2 + 1.6 * rule.steps) / 3,
}
VARIANTS: dict[str, tuple[Mapping[str, Any], ...]] = {  # the options of the field's studies
    "sign_symmetry": ({"magnitudes": "uniform"}, {"magnitudes": "redrawn"}),
    "local_loss": ({"prediction": "sum"},),
    "predictive_coding": ({"multipliers": True}, {"prediction": "fixed"}),
    "forward_gradient": ({"draws": 16},),
}


@dataclass(frozen=True)
class Result:
    """The cost of one rule with some options, with its ceiling where it has one."""

    name: str
    options: Mapping[str, Any]
    network: str
    measured: float
    ceiling: float | None

    def __str__(self) -> str:
        said = "" if self.ceiling is None else f"at most {self.ceiling:.2f}"
        kept = "" if self.ceiling is None else "kept" if self.measured <= self.ceiling else "MISSED"
        label = " ".join([self.name, *(f"{option}={value}" for option, value in self.options.items())])
        return f"{label:<38}{self.network:<10}{self.measured:>8.2f}   {said:<14}{kept}"


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
    """Every rule with its default options, then with those of the field's studies, from one interleaved run."""
    on = batch()
    ways = {f"bp on {network}": steps(methods["bp"](), on, network) for network in NETWORKS}
    places = {}
    rules = {
        (name, index): methods[name](**options) for name in methods for index, options in enumerate(_options(name))
    }
    for key, rule in rules.items():
        places[key], ways[str(key)] = first_supported(rule, on)
    taken = interleaved(ways, REPEATS, time.process_time)
    return [
        Result(
            key[0],
            _options(key[0])[key[1]],
            place,
            ratio(taken, str(key), f"bp on {place}") * STEPS / period(rules[key]),
            ceiling(key[0], _options(key[0])[key[1]]),
        )
        for key, place in places.items()
    ]


def ceiling(name: str, options: Mapping[str, Any]) -> float | None:
    """What a step of a rule with these options may cost; None where nothing is declared."""
    return CEILINGS[name](methods[name](**options)) if name in CEILINGS else None


def _options(name: str) -> tuple[Mapping[str, Any], ...]:
    """The options with which a rule is measured; first the default ones."""
    return ({}, *VARIANTS.get(name, ()))


def written(found: list[Result], path: Path) -> Path:
    """The figures as JSON, with the setting in which they were measured."""
    setting = {"batch": BATCH, "inputs": INPUTS, "threads": 1, "cores": os.cpu_count(), "torch": torch.__version__}
    content = {"setting": setting, "load": round(os.getloadavg()[0], 1), "steps": [asdict(result) for result in found]}
    return write_text(path, json.dumps(content, indent=1) + "\n")


def main() -> None:
    """Print the table; with a path, write it too."""
    torch.set_num_threads(1)
    print(f"a step in backprop steps, batch {BATCH}, {INPUTS} inputs, one thread, {os.cpu_count()} cores")
    found = results()
    for result in found:
        print(result)
    if len(sys.argv) > 1:
        print(written(found, Path(sys.argv[1])))


if __name__ == "__main__":
    main()
