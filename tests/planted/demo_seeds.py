"""The demonstration's DFA with its frozen control on six seeds: is it decided with room to spare on every one?

python -m tests.planted.demo_seeds FILE   six minutes on one core; `make demo-seeds`
"""

from __future__ import annotations

import json
import math
import platform
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from creditscope import __version__
from creditscope.files import write_text
from creditscope.provenance import source_commit
from creditscope.runs.audit import audit_folder
from creditscope.runs.run import train_into
from creditscope.runs.spec import RunSpec
from creditscope.study.display.demonstration import demonstration
from creditscope.verdict import Finding

SEEDS = (1, 2, 3, 42, 123, 456)
SHOWN = ("D1", "D1:stream", "D2", "D2:tail", "D3", "D11")


def direct_feedback(seed: int) -> RunSpec:
    """The demonstration's run of DFA without a penalty."""
    return next(
        spec
        for spec in demonstration(seed=seed).values()
        if spec.method == "dfa" and not spec.penalty and spec.control == "none"
    )


def demonstrated(seed: int) -> dict[str, Any]:
    """Train DFA and its frozen control as the demonstration does, audit it, and keep what decides the verdict."""
    spec = direct_feedback(seed)
    with TemporaryDirectory() as temporary:
        for own in (spec, spec.control_spec("frozen")):
            train_into(Path(temporary) / own.key, own)
        report = audit_folder(Path(temporary) / spec.key).report
    return {
        "seed": seed,
        "key": spec.key,
        "verdict": report.verdict.text,
        "findings": {code: short(report.findings[code]) for code in SHOWN},
    }


def short(finding: Finding) -> dict[str, Any]:
    """Status, value and limit of a finding, with its interval where it has one."""
    ends = finding.interval if finding.interval is not None else (math.nan, math.nan)
    return {
        "status": str(finding.status),
        "value": finding.value,
        "limit": finding.limit.at,
        "interval": [float(f"{end:.6g}") for end in ends] if math.isfinite(sum(ends)) else None,
    }


def result() -> dict[str, Any]:
    """All seeds, with the versions that gave them."""
    versions = {"creditscope": __version__, "torch": torch.__version__, "python": platform.python_version()}
    return {"commit": source_commit(), "versions": versions, "runs": [demonstrated(seed) for seed in SEEDS]}


if __name__ == "__main__":
    write_text(Path(sys.argv[1]), json.dumps(result(), indent=1) + "\n")
