"""The last steps of every audit: from evidence to findings, verdict and report."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import torch
from torch import Tensor

from creditscope import __version__
from creditscope.auditing.accuracies import Arm, paired
from creditscope.auditing.measures import credit_measures, norm_measures
from creditscope.auditing.updates import update_measures, update_table
from creditscope.diagnostics import examine_all
from creditscope.evidence.credit import CreditEvidence, HiddenBackprop
from creditscope.evidence.records import Evidence
from creditscope.protocols import AuditProtocol, judge
from creditscope.provenance import Guard, source_commit
from creditscope.records.report import Provenance, Report, Subject
from creditscope.verdict import Finding, reference_collapsed, untrusted_states


def compared(evidence: Evidence, trained: Arm, frozen: Arm) -> Evidence:
    """The evidence with both sides of D3; seeds count as paired where both sides name the same ones."""
    control, same = paired(trained, frozen)
    return replace(
        evidence,
        accuracy=trained.values,
        control_accuracy=control.values,
        accuracy_source=trained.source,
        control_source=control.source,
        matched_seeds=same is not False,
        named_seeds=same is True,
    )


def examined(
    evidence: Evidence, protocol: AuditProtocol, limits: Mapping[str, float]
) -> tuple[Evidence, dict[str, Finding]]:
    """The findings; states at which no cosine can be interpreted are noted and left out of D5 and D6."""
    credit = evidence.credit
    probe = credit.backprop if isinstance(credit, CreditEvidence) else credit
    if isinstance(probe, HiddenBackprop) and probe.precision == "single":
        protocol = replace(protocol, variants={**protocol.variants, "D9": "single"})
    findings = examine_all(evidence, protocol, limits)
    untrusted = untrusted_states(findings)
    if untrusted and isinstance(credit, CreditEvidence):
        evidence = replace(evidence, untrusted=untrusted)
        findings = examine_all(evidence, protocol, limits)
    return evidence, findings


def judged_report(
    evidence: Evidence,
    protocol: AuditProtocol,
    limits: Mapping[str, float],
    subject: Subject,
    origin: Provenance,
) -> Report:
    """The report on this evidence."""
    evidence, findings = examined(evidence, protocol, limits)
    return Report(
        subject=subject,
        protocol=protocol.name,
        accuracy=evidence.accuracy,
        control_accuracy=evidence.control_accuracy,
        accuracy_source=evidence.accuracy_source,
        control_source=evidence.control_source,
        findings=findings,
        measures=norm_measures(evidence)
        | credit_measures(evidence, collapsed=reference_collapsed(findings))
        | update_measures(evidence.updates),
        updates=update_table(evidence.updates),
        exact_layers=_exact_layers(evidence),
        verdict=judge(protocol, findings),
        provenance=origin,
    )


def provenance(
    evidence: Evidence, anchor: Tensor, read: str, guards: dict[str, Guard], trained: Arm, frozen: Arm
) -> Provenance:
    """Software, device and data of an audit; `anchor` is a tensor of what was audited."""
    return Provenance(
        creditscope=__version__,
        torch=torch.__version__,
        python=platform.python_version(),
        commit=source_commit(),
        device=str(anchor.device),
        dtype=str(anchor.dtype).removeprefix("torch."),
        images=evidence.images,
        batches=evidence.batches,
        read=read,
        guards=guards,
        seeds=trained.seeds,
        control_seeds=frozen.seeds,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        threads=torch.get_num_threads(),
    )


def _exact_layers(evidence: Evidence) -> tuple[int, ...]:
    credit = evidence.credit
    return tuple(sorted(credit.exact_layers)) if isinstance(credit, CreditEvidence) else ()
