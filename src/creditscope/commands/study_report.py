"""`creditscope study report`: the audit table of a study over its seeds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from creditscope.commands import Plugins, TrustPlugins, command, say, width
from creditscope.commands.study import WIDE, Budget, File, Folder, Only, Results, planned, tell_damage, title_of
from creditscope.errors import InvalidInput
from creditscope.protocols import DEFAULT


@command("study report")
def report(
    file: File,
    folder: Folder = Path("runs"),
    results: Results = None,
    budget: Budget = None,
    only: Only = None,
    protocol: Annotated[str, typer.Option(help="strict, three or four.")] = DEFAULT,
    html: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write HTML pages too, of 200 runs at most.")
    ] = None,
    latex: Annotated[bool, typer.Option("--latex", help="Print a booktabs table instead of the page.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    each: Annotated[bool, typer.Option("--runs", help="With these: one row per run instead of per method.")] = False,
    plugin: Plugins = None,
    trust_plugins: TrustPlugins = False,
) -> int:
    """Print the audit table over seeds, with a verdict for each seed and for each method."""
    chosen = [name for name, on in (("latex", latex), ("csv", csv), ("markdown", markdown), ("json", json)) if on]
    if len(chosen) > 1:
        raise InvalidInput(
            f"--{' and --'.join(chosen)} were given together.\n"
            "They would be mixed on standard output. Give one of them."
        )
    if each and not chosen:
        raise InvalidInput("--runs was given without --latex, --csv, --markdown or --json.\nGive one of them too.")
    from creditscope.study.display.table import table_page
    from creditscope.study.store import open_store
    from creditscope.study.tables import audit_table

    store = open_store(folder, results)
    study, runs = planned(file, budget, plugin, store, only, trust=trust_plugins)
    tell_damage(runs, store)
    rows = audit_table(runs, store, protocol=protocol)
    if chosen:
        from creditscope.study.table_export import StudyTable

        table = StudyTable(title_of(study, budget), rows, by_run=each)
        say(str(getattr(table, f"to_{chosen[0]}")()).rstrip("\n"))
        return 0
    say(table_page(title_of(study, budget), rows, width() if sys.stdout.isatty() else WIDE))
    if html is not None:
        from creditscope.study.display.pages import study_pages

        say(f"wrote {study_pages(runs, store, rows, title_of(study, budget), html, protocol=protocol)}")
    return 0
