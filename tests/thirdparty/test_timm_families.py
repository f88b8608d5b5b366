"""One small model per family of timm is audited without a hint: random weights, nothing downloaded.

`timm_families.json` names, for each module file of timm.models, the model with the fewest parameters, where that is at
most 13 million and takes images of at most 300 pixels. An alarm is false if an intervention contradicts it. At its
start a network may have blocks that do nothing (LayerScale, gains of zero) or a BatchNorm without statistics, and D11
and D12 say so: to put back what a block added, or to move a state by a hundredth of its size, then moves the loss
hardly either.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from creditscope import Report, audit
from creditscope.batch import Batch
from creditscope.diagnostics import diagnostics
from creditscope.errors import CreditscopeError
from creditscope.stream.find import find_stream
from creditscope.stream.isolation import undisturbed
from creditscope.stream.trace import capture, losses_at
from creditscope.verdict import Status

pytestmark = [pytest.mark.thirdparty, pytest.mark.filterwarnings("ignore")]

FAMILIES = json.loads((Path(__file__).parent / "timm_families.json").read_text())
STEP, ROOM = 0.01, 10.0  # a step in units of the state; an intervention is no first-order term, and may differ by this


def made(name: str) -> Any:
    import timm

    torch.manual_seed(0)
    return timm.create_model(name, pretrained=False)


def batches(pixels: int) -> list[Batch]:
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


@cache
def outcome(family: str) -> str:
    """Whether the model was audited, refused, or has false alarms, with the verdict."""
    chosen = FAMILIES[family]
    network, given = made(chosen["model"]), batches(chosen["pixels"])
    try:
        report = audit(network, given)
    except CreditscopeError as error:
        text = f"refused: {str(error).splitlines()[0]}"
    else:
        false = contradicted(network, given[0], report) if report.verdict.outcome == "fail" else []
        text = f"false alarm {'+'.join(false)}: {report.verdict}" if false else f"audited: {report.verdict}"
    sys.stdout.write(f"{family:28} {chosen['model']:32} {text}\n")
    return text


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_audited_or_refused_but_never_crashes(family: str) -> None:
    assert outcome(family).startswith(("audited", "refused", "false alarm"))


def test_nine_in_ten_families_are_audited_without_a_hint_and_without_a_false_alarm() -> None:
    outcomes = {family: outcome(family) for family in FAMILIES}
    others = {family: text for family, text in outcomes.items() if not text.startswith("audited")}
    assert len(outcomes) >= 48
    assert len(others) <= 0.1 * len(outcomes), others
