"""The public API as a user's type checker sees it: `make types` checks this file with pyright in basic mode.

It is read, not run. `assert_type` fails where a public name has lost its type.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_type

from torch import Tensor, nn

import creditscope
from creditscope.monitoring.loggers import Logger
from creditscope.monitoring.row import Row
from creditscope.verdict import Finding, Verdict


def audited(model: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> None:
    report = creditscope.audit(model, batches, control_accuracy=0.3, thresholds={"D1": 100.0}, name="mine")
    assert_type(report, creditscope.Report)
    assert_type(report.findings, dict[str, Finding])
    assert_type(report.findings["D1"].value, float | None)
    assert_type(report.verdict, Verdict)
    assert_type(report.to_markdown(), str)
    assert_type(report.to_html("report.html"), Path)


def credited(model: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> None:
    rule = creditscope.rule("dfa", model, example=batches[0], seed=0)
    assert_type(rule.backward(*batches[0]), Tensor)
    creditscope.audit(model, batches, credit=rule)
    creditscope.audit(model, batches, credit=lambda batch: [batch.inputs])


class Kept(Logger):
    def __init__(self) -> None:
        self.said: list[Mapping[str, float]] = []

    def log(self, scalars: dict[str, float], step: int) -> None:
        self.said.append(scalars)


def monitored(model: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> None:
    monitor = creditscope.Monitor(model, batches, every=2, logger=[Kept(), "run.csv", print])
    assert_type(monitor.step(0), Row | None)
    assert_type(monitor.history, list[Row])
    assert_type(monitor.should_stop, bool)
    assert_type(monitor.report(control_accuracy=0.3), creditscope.Report)


def explained() -> None:
    assert_type(creditscope.explain("D1"), str)
    try:
        creditscope.explain("D1x")
    except creditscope.CreditscopeError as error:
        assert_type(error.args, tuple[Any, ...])
