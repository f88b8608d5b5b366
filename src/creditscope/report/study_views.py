"""Runs of a study as views, each with the verdict that the study gives it beside its frozen control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from creditscope.records.run import RunRecord
from creditscope.report.views import AuditView, from_runs
from creditscope.verdict import Finding, Verdict


class Accuracies(Protocol):
    """Accuracies over seeds."""

    @property
    def values(self) -> tuple[float, ...]:
        """One share per seed."""
        ...


class JudgedRun(Protocol):
    """One run beside its frozen control."""

    @property
    def key(self) -> str:
        """The key of the run."""
        ...

    @property
    def audited(self) -> bool:
        """Whether its record holds a report."""
        ...

    @property
    def control_accuracy(self) -> float | None:
        """Accuracy of the frozen control."""
        ...

    @property
    def findings(self) -> Mapping[str, Finding]:
        """The findings, depth utility among them."""
        ...

    @property
    def verdict(self) -> Verdict:
        """The verdict, the control taken into account."""
        ...


class JudgedMethod(Protocol):
    """One method in one setting over its seeds."""

    @property
    def label(self) -> str:
        """The method, as legends call it."""
        ...

    @property
    def seeds(self) -> Sequence[JudgedRun]:
        """Its runs."""
        ...

    @property
    def accuracy(self) -> Accuracies | None:
        """Accuracies over seeds."""
        ...

    @property
    def control(self) -> Accuracies | None:
        """The same with frozen blocks."""
        ...

    @property
    def findings(self) -> Mapping[str, Finding]:
        """The findings over all seeds."""
        ...

    @property
    def verdict(self) -> Verdict | None:
        """The judgement over all seeds; None for a control."""
        ...


def judged_views(records: Mapping[str, RunRecord], rows: Sequence[JudgedMethod], protocol: str) -> list[AuditView]:
    """The runs of a study by key, each judged with its control; runs that no row names follow unchanged.

    protocol  the one by which the rows were judged
    """
    every = dict(zip(records, from_runs(list(records.values())), strict=True))
    views: list[AuditView] = []
    for row in rows:
        for seed in row.seeds:
            if seed.key in records:
                view = every.pop(seed.key)
                judged = view if row.verdict is None else beside_control(view, seed, protocol)
                views.append(replace(judged, label=row.label))
    return [*views, *every.values()]


def beside_control(view: AuditView, judged: JudgedRun, protocol: str) -> AuditView:
    """The view with the verdict that its run has beside its frozen control."""
    if view.report is None:
        return view
    control = None if judged.control_accuracy is None else (judged.control_accuracy,)
    update = {"findings": dict(judged.findings), "control_accuracy": control, "protocol": protocol}
    return replace(view, report=view.report.with_verdict(judged.verdict, **update))
