"""`python -m creditscope.linting PATH...`: the linter alone, for which nothing has to be installed."""

from __future__ import annotations

import sys
from pathlib import Path

from creditscope.errors import CreditscopeError
from creditscope.linting.formats import as_text
from creditscope.linting.lint import NOT_LINTED, lint
from creditscope.terminal import complain, say


def main(paths: list[str]) -> int:
    """Print the findings; the exit code is that of `creditscope lint`."""
    try:
        report = lint([Path(path) for path in paths])
    except CreditscopeError as error:
        complain(f"Error: {error}")
        return NOT_LINTED
    say(as_text(report, 80))
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
