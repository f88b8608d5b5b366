"""`creditscope partial-audit`: audit runs of which only logs are left."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from creditscope.commands import coloured, command, parsing, say, width

Logs = Annotated[
    list[Path],
    typer.Argument(
        metavar="LOGS",
        help="Logs of one method, one file per seed: JSON, JSON lines, CSV, or a CSV export of W&B or TensorBoard "
        "(one file per scalar). The last row of each describes the trained network.",
    ),
]
Field = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ROLE=PATH",
        help="The key of a number that the logs do not call by its published name. Roles: accuracy "
        "(final_test_acc), log (log), and in its rows h_0 to h_L (h_L_norm), g_0 to g_L (g_2_norm), epoch (epoch); "
        "h or g alone is a list of all layers. Paths use dots, and numbers in lists: norms.last, history.-1.acc. "
        "Repeatable.",
    ),
]
Baseline = Annotated[
    list[float] | None,
    typer.Option(metavar="SHARE", help="Accuracy with frozen blocks, 0 to 1: once for all seeds, or once per log."),
]
Embedding = Annotated[
    list[float] | None,
    typer.Option(
        "--h0",
        metavar="NORM",
        help="Median ‖h_0‖ of the trained network, if the logs do not hold it: once for all logs, or once per log.",
    ),
]
Blocks = Annotated[int | None, typer.Option(metavar="L", help="Number of blocks.", min=1)]
BatchSize = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Batch size of the logged gradients, which are those of the batch-mean loss; 1 for a summed loss.",
    ),
]
TestImages = Annotated[
    int | None,
    typer.Option(metavar="N", help="Test images per accuracy; gives a single seed an interval.", min=1),
]
Protocol = Annotated[str, typer.Option(help="three or four.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON instead of the page.")]


@command("partial-audit")
def partial_audit(
    logs: Logs,
    field: Field = None,
    baseline: Baseline = None,
    h0: Embedding = None,
    blocks: Blocks = None,
    batch_size: BatchSize = None,
    test_images: TestImages = None,
    protocol: Protocol = "three",
    json: Json = False,
) -> int:
    """Audit runs of which only logs are left: each diagnostic is exact, bounded, open or missing.

    Exit code 1 fail, 3 inconclusive, 2 for bad input. Logs never pass: a pass needs the weights.

    Example: `creditscope partial-audit dfa-*.json --baseline 0.29 --blocks 4 --batch-size 128`
    """
    fields = {role: str(path) for role, path in parsing.pairs(field, "--field", "accuracy=test_acc").items()}
    from creditscope.partial import partial_audit as judged
    from creditscope.partial import read_logs

    result = judged(
        read_logs(logs),
        baseline=baseline,
        h0=h0,
        blocks=blocks,
        batch_size=batch_size,
        test_images=test_images,
        fields=fields,
        protocol=protocol,
    )
    if json:
        say(result.to_json().rstrip("\n"))
        return result.verdict.exit_code
    from creditscope.partial.page import page

    say(page(result, width(), coloured()), painted=True)
    return result.verdict.exit_code
