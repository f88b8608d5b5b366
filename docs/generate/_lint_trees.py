"""Lints the source trees of installed packages and writes what it found: `make lint-counts`.

docs/generate/lint.py sets the counts beside the judgement of everybody who has read an alarm in its source.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from creditscope.files import write_text
from creditscope.linting.lint import lint

PACKAGES = ("timm", "transformers", "lightning", "torch", "biotorch")


def counted(package: str) -> dict[str, Any]:
    """Version, files, lines, alarms and files that were not linted, of one installed package."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        sys.exit(f"{package} is not installed: run make lint-counts.")
    root = Path(spec.origin).parent
    report = lint([root])

    def place(path: Path) -> str:
        return path.relative_to(root).as_posix()

    return {
        "package": package,
        "version": version(package).partition("+")[0],
        "files": report.files,
        "lines": report.lines,
        "alarms": [{"code": one.code, "path": place(one.path), "line": one.line} for one in report.findings],
        "not_linted": [{"path": place(one.path), "reason": one.reason} for one in report.not_linted],
    }


if __name__ == "__main__":
    print(write_text(sys.argv[1], json.dumps([counted(package) for package in PACKAGES], indent=1) + "\n"))
