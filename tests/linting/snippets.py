"""Linting a text, for the tests of the linter."""

from __future__ import annotations

import textwrap
from pathlib import Path

from creditscope.linting.lint import LintFinding, lint

HEAD = "import torch\nimport numpy as np\nimport torch.nn.functional as F\nfrom torch import nn\n"


def lint_text(text: str, folder: Path, name: str = "code.py") -> list[LintFinding]:
    """The findings in a text; it must be Python."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    report = lint([path])
    assert report.not_linted == ()
    return list(report.findings)


def codes(text: str, folder: Path) -> list[str]:
    """The codes that fire in an indented text below the usual imports."""
    return [finding.code for finding in lint_text(HEAD + textwrap.dedent(text), folder)]
