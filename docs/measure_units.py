"""Measures what a change of units does to alignment, on three seeds: `make units`.

The last block of a trained network is changed so that the state behind it is c times as large, as in measure_scale.py;
the LayerNorm before the read-out takes c away again. Backprop is audited with its gradient as credit, penalised DFA
with its own credit. Everything is read at the deepest state, which alone changes.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import torch
from docs.measure_scale import rescaled

import creditscope
from creditscope.files import write_text
from creditscope.methods.bound_rule import BoundRule
from creditscope.provenance import source_commit
from creditscope.runs.run import load_data, train
from creditscope.runs.spec import RunSpec
from creditscope.training.checkpoint import Checkpoint

RESULT = Path(__file__).resolve().parents[1] / "results" / "units.json"
SEEDS = (42, 123, 456)
EXPONENTS = (0, 4, 8)  # of ten
METHODS = {"bp": 0.0, "dfa": 0.01}  # with their penalties: without one, DFA explodes by itself
MEASURES = ("gamma", "gamma_clamped", "rho", "rho_absolute", "rho_absolute_bp")


def spec(method: str, seed: int) -> RunSpec:
    """The run of the page with the scale to drag, by another method and seed."""
    return RunSpec(method=method, penalty=METHODS[method], epochs=60, seed=seed, network_options={"d": 32, "depth": 4})


def measured(checkpoint: Checkpoint, run: RunSpec, exponent: int) -> dict[str, Any]:
    """One audit of the rescaled network; alignment and sensitivity at the deepest state."""
    network = rescaled(checkpoint.network, 10.0**exponent).eval()
    credit = BoundRule(checkpoint.rule, network, checkpoint.feedback, checkpoint.example)
    report = creditscope.audit(network, load_data(run).test_batches(125), credit=credit, name=run.title)
    return {
        "method": run.method,
        "seed": run.seed,
        "exponent": exponent,
        "accuracy": report.accuracy[0] if report.accuracy else None,
        "gradient": report.findings["D2"].per_layer[-1],
        "sensitivity": report.findings["D11"].per_layer[-1],
        **{name: report.measures[name].per_layer[-1] for name in MEASURES},
    }


def result() -> dict[str, Any]:
    """Every method, seed and scale, with the setting and versions."""
    rows = []
    for method in METHODS:
        for seed in SEEDS:
            run = spec(method, seed)
            checkpoint = train(run)
            rows += [measured(checkpoint, run, exponent) for exponent in EXPONENTS]
    versions = {"creditscope": creditscope.__version__, "torch": torch.__version__, "python": platform.python_version()}
    setting = spec("bp", SEEDS[0]).model_dump(mode="json", exclude={"method", "penalty", "seed"})
    return {"setting": setting, "penalties": METHODS, "commit": source_commit(), "versions": versions, "rows": rows}


if __name__ == "__main__":
    torch.set_num_threads(1)
    write_text(RESULT, json.dumps(result(), indent=1).replace("NaN", '"NaN"') + "\n")
