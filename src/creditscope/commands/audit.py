"""Can a trained network's accuracy and alignment be believed?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from creditscope.commands import Plugins, coloured, command, say, width
from creditscope.commands import options as words
from creditscope.errors import BadFile, InvalidInput

if TYPE_CHECKING:
    from creditscope.records.report import Report
    from creditscope.report.formats import ReportFormat


def _panel(title: str) -> Callable[..., Any]:
    """Options that stand together in the help."""
    return lambda text, metavar=None, *names, **rest: typer.Option(
        *names, metavar=metavar, help=text, rich_help_panel=title, **rest
    )


_network, _images, _claim = _panel("The network"), _panel("The images"), _panel("The claim")
_judging, _running = _panel("Judging"), _panel("Running and writing")
Weights = Annotated[
    Path,
    typer.Argument(
        metavar="WEIGHTS|FOLDER",
        help="The folder of a run made by `creditscope train`; or a safetensors file, or a torch file of tensors only.",
    ),
]
Network = Annotated[str | None, _network("One of ours: see `creditscope list networks`.", "NAME")]
Model = Annotated[str | None, _network("Your own function that makes the network.", "MODULE:FUNCTION")]
Options = Annotated[list[str] | None, _network("An option of the network, as in d=256. Repeatable.", "NAME=VALUE")]
Blocks = Annotated[str | None, _network("Where its list of blocks is, or module names with commas between.", "PATH")]
Read = Annotated[str, _network("The token that stands for a state: auto, first, mean, all or an index.", "RULE")]
Dataset = Annotated[str | None, _images("One of ours: see `creditscope list datasets`.", "NAME")]
Folder = Annotated[Path | None, _images("Where datasets are kept, instead of the cache folder.", "FOLDER")]
Batches = Annotated[Path | None, _images("A safetensors file with `inputs` and `labels`.", "FILE")]
BatchSize = Annotated[int, _images("Images in a batch.", min=1)]
First = Annotated[int | None, _images("Take only the first so many images.", min=1)]
Accuracies = Annotated[list[float] | None, _claim("Accuracy from 0 to 1, once per seed; else measured.", "SHARE")]
Controls = Annotated[list[float] | None, _claim("The same with frozen blocks, once per seed.", "SHARE")]
Name = Annotated[str, _claim("What the report calls the network.", show_default=False)]
Notes = Annotated[str, _claim("A remark that the report carries.", show_default=False)]
Protocol = Annotated[str, _judging("three, four or april.")]
Thresholds = Annotated[list[str] | None, _judging("Another limit, as in D1=100. Repeatable.", "CODE=VALUE")]
Check = Annotated[bool, _judging("Compare the backward pass with a finite difference first.")]
Out = Annotated[
    list[Path] | None,
    _running("Write the report too; the suffix is the format (.json, .html). Repeatable.", "FILE", "--out"),
]
Format = Annotated[str, _running("Print this format: see `creditscope list formats`.", "NAME", "--format")]
Device = Annotated[str, _running("cpu, cuda, cuda:1 and so on.")]
Threads = Annotated[int | None, _running("Threads of the CPU.", min=1)]


@command("audit")
def audit(
    weights: Weights,
    network: Network = None,
    model: Model = None,
    option: Options = None,
    blocks: Blocks = None,
    read: Read = "auto",
    data: Dataset = None,
    data_dir: Folder = None,
    batches: Batches = None,
    batch_size: BatchSize = 128,
    limit: First = None,
    accuracy: Accuracies = None,
    control_accuracy: Controls = None,
    name: Name = "",
    notes: Notes = "",
    protocol: Protocol = "three",
    threshold: Thresholds = None,
    gradient_check: Check = True,
    out: Out = None,
    format: Format = "text",
    device: Device = "cpu",
    threads: Threads = None,
    plugin: Plugins = None,
) -> int:
    """Audit a trained network: can its accuracy and its alignment be believed?

    Exit code 0 pass, 1 fail, 3 inconclusive, 2 for bad input.

    A run of `creditscope train` needs nothing else: `creditscope audit runs/dfa`. Its frozen twin is looked for in
    runs/dfa/controls, then among the folders beside it.

    Example: `creditscope audit dfa.safetensors --network resmlp --data mnist1d --control-accuracy 0.32`
    """
    limits, settings = words.thresholds(threshold), words.pairs(option, "--option", "d=256")
    from creditscope.commands.report import output_formats
    from creditscope.report.formats import formats

    files, printed = output_formats(out), formats[format]
    import torch

    from creditscope.auditing.audit import audit as examine
    from creditscope.commands.material import data_from, first_images, subject_from
    from creditscope.runs.controls import audit_folder, refuse_what_the_record_decides

    if threads is not None:
        torch.set_num_threads(threads)
    if not weights.exists():
        raise BadFile(
            f"{weights} cannot be read: there is no such file or folder.\nNothing was measured. Check the path."
        )
    place = words.device(device)
    options: dict[str, Any] = {
        "accuracy": accuracy,
        "control_accuracy": control_accuracy,
        "protocol": protocol,
        "thresholds": limits,
        "name": name,
        "notes": notes,
    }
    try:
        if weights.is_dir():
            refuse_what_the_record_decides(
                weights,
                {
                    "network": network,
                    "model": model,
                    "option": option,
                    "data": data,
                    "batches": batches,
                    "blocks": blocks,
                },
            )
            more = {"check_gradient": gradient_check, "batch_size": batch_size, "read": words.read(read)}
            report = audit_folder(weights, data_dir, str(place), limit, options | more)
            return show(report, weights, files, printed)
        images = data_from(data, data_dir, batches)
        report = examine(
            subject_from(weights, network, model, settings, images).to(place),
            first_images(images.batches(batch_size), batch_size, limit),
            blocks=words.blocks(blocks),
            read=words.read(read),
            check_gradient=gradient_check,
            **{**options, "name": name or weights.stem},
        )
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise InvalidInput(
            f"A batch of {batch_size} images does not fit into the memory of {device}.\n"
            "Nothing was measured. Give a smaller --batch-size."
        ) from error
    return show(report, weights, files, printed)


def show(report: Report, weights: Path, files: Mapping[Path, ReportFormat], printed: ReportFormat) -> int:
    """Print the report, write the files; a run's own record tells the form how it was trained."""
    from creditscope.report.views import from_report, from_runs

    view = from_report(report)
    if weights.is_dir():
        from creditscope.records.run import RunRecord

        record = RunRecord.from_json(weights / "record.json")
        (view,) = from_runs([record.model_copy(update={"report": report})])
    say(printed.on_screen([view], width(), colour=coloured()).rstrip("\n"))
    for path, entry in files.items():
        entry.write([view], path)
    return report.verdict.exit_code
