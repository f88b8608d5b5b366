"""Audits the smallest model of each family of timm: `python -m tests.thirdparty.timm_families FILE [FAMILY ...]`.

A family is a module of timm.models. Weights are random, nothing is downloaded. Images have 224 pixels, or the size that
the model prescribes. Outcomes are added to FILE one by one, so that a run that was stopped is resumed.

An alarm is false if an intervention contradicts it. At its start a network may have blocks that do nothing
(LayerScale, gains of zero) or a BatchNorm without statistics, and D11 and D12 say so: to put back what a block added,
or to move a state by a hundredth of its size, then moves the loss hardly either.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from tests.thirdparty.conftest import declare_operations

from creditscope import Report, audit
from creditscope.batch import Batch
from creditscope.diagnostics import diagnostics
from creditscope.errors import CreditscopeError
from creditscope.files import write_text
from creditscope.provenance import source_commit
from creditscope.stream.find import find_stream
from creditscope.stream.isolation import undisturbed
from creditscope.stream.trace import capture, losses_at
from creditscope.verdict import Status

Row = dict[str, Any]
PIXELS = 224
STEP, ROOM = 0.01, 10.0  # a step in units of the state; an intervention is no first-order term, and may differ by this


def smallest(family: str) -> Row:
    """The model of a family with the fewest parameters, and their number; models are built without storage."""
    import timm

    sizes = {}
    for name in timm.list_models(module=family):
        with torch.device("meta"):
            model = timm.create_model(name, pretrained=False)
        sizes[name] = sum(parameter.numel() for parameter in model.parameters())
    name = min(sizes, key=lambda name: (sizes[name], name))
    return {"model": name, "parameters": sizes[name]}


def made(name: str) -> Any:
    """The model with random weights, drawn from seed 0."""
    import timm

    torch.manual_seed(0)
    return timm.create_model(name, pretrained=False)


def pixels_of(model: Any) -> int:
    """224, or the size that the model prescribes: by its configuration, or because it fails at 224."""
    own = int(model.default_cfg["input_size"][-1])
    if model.default_cfg.get("fixed_input_size"):
        return own
    try:
        with torch.no_grad(), undisturbed(model):
            model(torch.zeros(1, 3, PIXELS, PIXELS))
    except (RuntimeError, AssertionError, ValueError):
        return own
    return PIXELS


def batches(pixels: int) -> list[Batch]:
    """Two batches of two images of noise."""
    generator = torch.Generator().manual_seed(1)
    return [
        Batch(torch.randn(2, 3, pixels, pixels, generator=generator), torch.randint(10, (2,), generator=generator))
        for _ in range(2)
    ]


def contradicted(model: Any, batch: Batch, report: Report) -> list[str]:
    """The alarms that an intervention contradicts; D1 and D2 have none that would prove them right."""
    fired = {code for code, finding in report.findings.items() if finding.status is Status.FIRES}
    exploded = {"D1", "D1:stream"} & fired if "D2:tail" in fired else set()
    alarms = sorted({"D0", "D11", "D12"} & fired | exploded)
    stream = find_stream(model)
    with undisturbed(stream.model):
        stream.settle(batch.inputs)
        trace = capture(stream, batch)
        sizes = trace.error.flatten(1).norm(dim=1)

        def moved(shifts: dict[int, torch.Tensor]) -> float:
            return float(((losses_at(stream, batch, shifts) - trace.losses).abs() / sizes).median())

        undone = [
            moved({layer + 1: before - after})
            for layer, (before, after) in enumerate(zip(trace.hiddens, trace.hiddens[1:], strict=False))
            if before.shape == after.shape
        ]
        along = [
            moved({layer: STEP * state.norm() * gradient / gradient.norm().clamp_min(1e-30)}) / STEP
            for layer, (state, gradient) in enumerate(zip(trace.hiddens, trace.gradients, strict=True))
        ]
    true = {
        "D12": max(undone, default=0.0) < ROOM * diagnostics["D12"].limit.at,
        "D11": min(along) < ROOM * diagnostics["D11"].limit.at,
    }
    return [code for code in alarms if not true.get(code, False)]


def outcome(chosen: Row) -> Row:
    """Whether a model is audited, refused, or has false alarms; with its stream, the verdict or the reason."""
    network = made(chosen["model"])
    pixels = pixels_of(network)
    given = batches(pixels)
    row: Row = {
        "model": chosen["model"],
        "parameters": chosen["parameters"],
        "pixels": pixels,
        "commit": source_commit(),
    }
    try:
        report = audit(network, given)
    except CreditscopeError as error:
        return {**row, "outcome": "refused", "why": str(error)}
    false = contradicted(network, given[0], report) if report.verdict.outcome == "fail" else []
    return {
        **row,
        "outcome": "false alarm" if false else "audited",
        **({"why": "+".join(false)} if false else {}),
        "depth": report.subject.depth,
        "stream": report.provenance.guards["stream"].text if "stream" in report.provenance.guards else "as published",
        "verdict": report.verdict.text,
    }


def main(file: Path, families: list[str]) -> None:
    """Choose a model for each family that the file does not have yet, then audit those without an outcome.

    Families that are named are audited again, and only they. Small models come first.
    """
    import timm

    rows: dict[str, Row] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}

    def saved(family: str, row: Row, note: str) -> None:
        rows[family] = row
        write_text(file, json.dumps(dict(sorted(rows.items())), indent=1) + "\n")
        sys.stdout.write(f"{family:26} {row['model']:34} {note}\n")
        sys.stdout.flush()

    for family in families or timm.list_modules():
        if family not in rows:
            saved(family, smallest(family), "chosen")
    for family in sorted(
        families or [key for key in rows if "outcome" not in rows[key]], key=lambda key: size(rows[key])
    ):
        start = time.perf_counter()
        row = outcome(rows[family])
        seconds = time.perf_counter() - start
        saved(family, row, f"{seconds:4.0f} s  {row['outcome']}: {row.get('why', row.get('verdict'))}")


def size(row: Row) -> int:
    """The number of parameters."""
    return int(row["parameters"])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    operations = declare_operations()
    main(Path(sys.argv[1]), sys.argv[2:])
