"""`creditscope study compare`: the methods of a study beside each other, over seeds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from creditscope.commands import Plugins, TrustPlugins, command, parsing, say, width
from creditscope.commands.study import WIDE, Budget, File, Folder, Only, Results, planned, tell_damage

By = Annotated[str, typer.Option(metavar="SETTING", help="What is compared: method, network, epochs, network.d, ...")]
Unmatched = Annotated[
    bool, typer.Option("--unmatched", help="Compare runs of different recipes or without common seeds all the same.")
]
Plot = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Draw a forest plot too: .svg, .pdf or .png.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@command("study compare")
def compare(
    file: File,
    by: By = "method",
    folder: Folder = Path("runs"),
    results: Results = None,
    budget: Budget = None,
    only: Only = None,
    unmatched: Unmatched = False,
    plot: Plot = None,
    json: Json = False,
    plugin: Plugins = None,
    trust_plugins: TrustPlugins = False,
) -> int:
    """Compare the methods of a study: paired differences per seed, with Holm's correction over all pairs.

    Runs are compared within each recipe that the methods share. Methods whose recipes do not match are refused.
    """
    from creditscope.study.comparison import compare_rows
    from creditscope.study.display.comparison import as_json, comparison_page
    from creditscope.study.store import open_store
    from creditscope.study.tables import audit_table

    if plot is not None:
        parsing.writable(plot, "The plot")
    store = open_store(folder, results)
    _, runs = planned(file, budget, plugin, store, only, trust=trust_plugins)
    tell_damage(runs, store)
    rows = audit_table(runs, store)
    summaries = (store.summary(seed.key, control=True) for row in rows for seed in row.seeds)
    images = {summary.key: summary.test_images for summary in summaries if summary is not None}
    comparisons = compare_rows(rows, by, images=images, unmatched=unmatched)
    say(as_json(comparisons) if json else comparison_page(comparisons, width() if sys.stdout.isatty() else WIDE))
    if plot is not None:
        from creditscope.report.charts.forest import write_forest

        typer.echo(f"wrote {write_forest([pair for one in comparisons for pair in one.pairs], plot)}", err=True)
    return 0
