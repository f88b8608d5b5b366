"""The command `lint`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from creditscope.commands import Plugins, command, parsing, say, width


@command("lint")
def lint(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files or folders.", show_default=False)],
    output: Annotated[
        str, typer.Option("--format", metavar="text|json|github|sarif", help="How to write the findings.")
    ] = "text",
    plugin: Plugins = None,
) -> int:
    """Find the pitfalls of measuring credit in Python files and notebooks, without importing them.

    `# noqa: CS001` at the end of a line silences a rule there. Exit codes: 0 no findings, 1 findings, 2 a path that
    does not exist, or no findings but a file that is not Python.

    Example: `creditscope lint src --format github`
    """
    from creditscope.linting.formats import LINT_FORMATS
    from creditscope.linting.lint import lint as lint_paths

    written = LINT_FORMATS[parsing.choice("format", output, list(LINT_FORMATS))]
    report = lint_paths(paths)
    say(written(report, width()))
    return report.exit_code
