"""assert_audit(): an audit that fails a test, with a message that says why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from creditscope.errors import InvalidInput, UnknownName
from creditscope.protocols import DEFAULT, protocol_named
from creditscope.registry import unknown
from creditscope.verdict import Finding, Status

if TYPE_CHECKING:
    from torch import nn

    from creditscope.records.report import Report

listeners: list[Callable[[Report], None]] = []  # called with the report of every assertion; the pytest plugin adds one


class AuditFailed(AssertionError):
    """A network did not pass the diagnostics that its test asks for; `report` is the whole audit."""

    def __init__(self, message: str, report: Report) -> None:
        super().__init__(message)
        self.report = report


def assert_audit(
    model: nn.Module, batches: Iterable[Any], *, passes: Sequence[str] = ("D0", "D1", "D2"), **options: Any
) -> Report:
    """Audit a network and fail unless it passes these diagnostics; returns the report.

    passes   codes of diagnostics; one that is skipped, undecided or undefined has not passed
    options  as for `creditscope.audit`: control_accuracy, credit, blocks, thresholds, protocol and so on

    Raises AuditFailed, an AssertionError with the report. In pytest, `--creditscope-pages FOLDER` keeps the page of a
    failed audit.

    >>> import torch
    >>> from creditscope.networks.build import build
    >>> from creditscope.testing import assert_audit
    >>> network = build("resmlp", 6, 3, seed=0, d=8, depth=2)
    >>> inputs, labels = torch.linspace(-1, 1, 384).view(64, 6), torch.arange(64) % 3
    >>> assert_audit(network, [(inputs, labels)], passes=("D0", "D1")).findings["D1"].status.value
    'pass'
    """
    __tracebackhide__ = True
    codes = _checked(passes, str(options.get("protocol", DEFAULT)))
    from creditscope.auditing.audit import audit

    report = audit(model, batches, **options)
    for listener in listeners:
        listener(report)
    failing = [report.findings[code] for code in codes if report.findings[code].status is not Status.PASS]
    if failing:
        raise AuditFailed(_message(report, codes, failing), report)
    return report


def _checked(passes: Any, protocol: str) -> tuple[str, ...]:
    """The codes, each known and able to pass under the protocol; checked before anything is measured."""
    from creditscope.diagnostics import diagnostics

    codes = (passes,) if isinstance(passes, str) else tuple(passes)
    if not codes:
        raise InvalidInput("passes is empty.\nThe test could not fail. Name the diagnostics that must pass.")
    chosen = protocol_named(protocol)
    known = {name for name in diagnostics if ":" not in name} | set(chosen.beside)
    for code in codes:
        if code not in known:
            raise UnknownName(unknown("diagnostic", str(code), sorted(known)))
        if code in chosen.unjudged:
            raise InvalidInput(
                f"{code} is measured without a limit under protocol {protocol}, so it can never pass.\n"
                "The test would always fail. Leave it out, or name a protocol that judges it."
            )
    return codes


def _message(report: Report, codes: Sequence[str], failing: Sequence[Finding]) -> str:
    from creditscope.report.headline import headline
    from creditscope.report.numbers import firing_side, value

    names = ", ".join(finding.code for finding in failing)
    passed = [code for code in codes if code not in {finding.code for finding in failing}]
    lines = [f"{report.subject.name} does not pass {names}.", ""]
    for finding in failing:
        number = "" if finding.value is None else f" {value(finding)} ({firing_side(finding)})"
        lines.append(f"{finding.code} {finding.title}: {finding.status.value}{number}")
        lines += [f"    {text}" for text in (finding.note, finding.remedy) if text]
    if passed:
        lines.append(f"Passed: {', '.join(passed)}")
    return "\n".join([*lines, "", f"Verdict {report.verdict}: {headline(report)}"])
