"""Runs every planted fault and every sound network once and writes what came out: `python -m tests.planted.suite FILE`.

Each network is judged by our protocols and by three peers: the published `diagnose` and `FAProtocol`, and accuracy
alone (above chance = fine).
"""

from __future__ import annotations

import json
import math
import platform
import sys
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from tests.planted.coverage import coverage_table
from tests.planted.criterion import broken
from tests.planted.faults import BASES, FAULTS, Fault, base
from tests.planted.healthy import HEALTHY, Sound

from creditscope import __version__
from creditscope.auditing.audit import audit
from creditscope.compat import FAProtocol, diagnose
from creditscope.diagnostics.depth import from_accuracies
from creditscope.errors import CreditscopeError
from creditscope.files import write_text
from creditscope.protocols import judge, protocol_named
from creditscope.provenance import Source
from creditscope.records.report import Report
from creditscope.verdict import Finding, Status

Row = dict[str, Any]
COVERAGE = "coverage"
JOBS = (*BASES, COVERAGE, *(sound.name for sound in HEALTHY))
PARTS = ("faults", "healthy", "coverage")
WORKERS = 2
CHANCE_LEVEL = 1e-3  # one-sided: an accuracy this improbable by chance is reported as "above chance"


def silent(report: Report) -> bool:
    """Whether nothing in the report would make a reader look twice."""
    fired = any(finding.status is Status.FIRES for finding in report.findings.values())
    return report.verdict.outcome == "pass" and not fired and not report.verdict.warnings


def judged(given: Mapping[str, Any], classes: int = 10) -> Row:
    """What all judges say of one network."""
    report = audit(**given)
    published = as_published(report)
    accuracy = fmean(report.accuracy or (math.nan,))
    return {
        "accuracy": accuracy,
        "broken": [code for code, holds in broken(given).items() if holds],
        "silent": silent(report),
        "warnings": len(report.verdict.warnings),
        "verdict": report.verdict.text,
        "outcomes": {
            "strict": report.verdict.outcome,
            **{name: judge(protocol_named(name), published).outcome for name in ("three", "four")},
            **_peers(given, accuracy),
            "accuracy": "pass" if _above_chance(accuracy, given, classes) else "fail",
        },
        "findings": {
            code: _short(finding)
            for code, finding in {**report.findings, "D4": published["D4"]}.items()
            if finding.reason is None
        },
    }


def as_published(report: Report) -> dict[str, Finding]:
    """The findings as `three` and `four` judge them: D3 by its published intervals, D4 by its limit."""
    images = report.provenance.images if report.accuracy_source is Source.MEASURED else None
    depth = from_accuracies(report.accuracy, report.control_accuracy, images, variant="published")
    drift = report.findings["D4"]
    if drift.status is Status.MEASURED and drift.measurement is not None:
        drift = replace(drift, status=drift.limit.judge(drift.measurement))
    return {**report.findings, "D3": depth, "D4": drift}


def _short(finding: Finding) -> dict[str, Any]:
    value = math.nan if finding.value is None else finding.value
    return {"status": str(finding.status), "value": float(f"{value:.6g}") if math.isfinite(value) else str(value)}


def _peers(given: Mapping[str, Any], accuracy: float) -> dict[str, str]:
    """The published protocols, which find the blocks by themselves and take one accuracy and one control."""
    model, batches = given["model"], given["batches"]
    typed = given.get("control_accuracy")
    control = None if typed is None else fmean(typed if isinstance(typed, list) else [typed])
    inputs, labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
    words = {"trustworthy": "pass", "needs": "fail", "incomplete": "inconclusive"}
    try:
        four = words[diagnose(model, batches, accuracy, control).verdict.partition(":")[0].partition(" ")[0]]
    except CreditscopeError:
        four = "refused"
    try:
        three = str(FAProtocol(model, inputs, labels).run(control)["verdict"]).partition("(")[0].lower()
    except CreditscopeError:
        three = "refused"
    return {"diagnose": four, "FAProtocol": three}


def _above_chance(accuracy: float, given: Mapping[str, Any], classes: int) -> bool:
    from scipy.stats import binom

    images = sum(len(batch.labels) for batch in given["batches"])
    return bool(binom.sf(round(accuracy * images) - 1, images, 1 / classes) < CHANCE_LEVEL)


def of_fault(fault: Fault) -> Row:
    """One planted fault, judged; where its grade is measured, the criterion decides it."""
    row = judged(fault.plant(base(fault.base)))
    if fault.criterion == "D1:stream" and row["findings"]["D2:tail"]["status"] == Status.FIRES:
        row["broken"].append("D1:stream")
    met = fault.criterion in row["broken"]
    return {
        "name": fault.name,
        "base": fault.base,
        "kind": fault.kind,
        "grade": ("fails" if met else "dose") if fault.grade == "measured" else fault.grade,
        "seen": list(fault.seen),
        "unknown": fault.unknown,
        "family": fault.family,
        "dose": None if math.isnan(fault.dose) else fault.dose,
        **row,
    }


def of_sound(sound: Sound) -> Row:
    """One sound network, judged."""
    return {"name": sound.name, "trained": bool(sound.epochs), **judged(sound.audited(), sound.classes)}


def of_base(name: str) -> Row:
    """The unbroken network that faults are planted in, with its control."""
    return {"name": f"{name}, trained, with its control", "trained": True, **judged(base(name).audited())}


def job(name: str) -> Row:
    """The faults of one base and the base itself, one sound network, or the coverage of D3's interval."""
    torch.set_num_threads(1)
    began = time.process_time()
    rows: dict[str, list[Row]] = {part: [] for part in PARTS}
    if name == COVERAGE:
        rows["coverage"] = coverage_table()
    elif name in BASES:
        rows["faults"] = [of_fault(fault) for fault in FAULTS if fault.base == name]
        rows["healthy"] = [of_base(name)]
    else:
        rows["healthy"] = [of_sound(sound) for sound in HEALTHY if sound.name == name]
    return {"cpu_seconds": time.process_time() - began, **rows}


def joined(jobs: Iterable[Row]) -> Row:
    """The answers of all jobs, in their order."""
    answers = list(jobs)
    return {
        "versions": {"creditscope": __version__, "torch": torch.__version__, "python": platform.python_version()},
        "cpu_seconds": round(sum(answer["cpu_seconds"] for answer in answers)),
        **{part: [row for answer in answers for row in answer[part]] for part in PARTS},
    }


def main() -> None:
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        run = joined(pool.map(job, JOBS))
    write_text(Path(sys.argv[1]), json.dumps(run, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
