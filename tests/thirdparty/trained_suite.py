"""Audits trained networks of other people: `python -m tests.thirdparty.trained_suite FILE`, in their environment."""

from __future__ import annotations

import json
import math
import sys
import warnings
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from tests.thirdparty.conftest import declare_operations
from tests.thirdparty.trained_networks import NETWORKS, Trained

from creditscope import Report, audit
from creditscope.files import write_text

SDISTS = {"tabpfn": "0.1"}  # unpacked, so that no metadata is installed


@cache
def audited(trained: Trained) -> Report:
    torch.manual_seed(0)
    return audit(**trained.given())


def version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return SDISTS[package]


def row(trained: Trained, report: Report) -> dict[str, Any]:
    """What one network shows."""
    values = {code: finding.value for code, finding in report.findings.items() if finding.reason is None}
    return {
        "package": trained.package,
        "version": version_of(trained.package),
        "network": trained.network,
        "task": trained.task,
        "chance": trained.chance,
        "accuracy": fmean(report.accuracy or (math.nan,)),
        "samples": report.provenance.images,
        "blocks": report.subject.depth,
        "verdict": report.verdict.text,
        "warnings": list(report.verdict.warnings),
        "fires": [code for code, finding in report.findings.items() if finding.status == "fires"],
        "values": {code: float(f"{value:.6g}") for code, value in values.items() if value is not None},
    }


def main() -> None:
    warnings.simplefilter("ignore")
    library = declare_operations()
    rows = [row(trained, audited(trained)) for trained in NETWORKS]
    del library
    write_text(Path(sys.argv[1]), json.dumps(rows, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
