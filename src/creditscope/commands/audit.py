"""`creditscope audit`: audit a trained run, or a network with weights from a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from creditscope.commands import Plugins, TrustPlugins, coloured, command, parsing, say, width
from creditscope.errors import InvalidInput
from creditscope.protocols import DEFAULT

if TYPE_CHECKING:
    import torch

    from creditscope.commands.material import NetworkForm
    from creditscope.report.formats import ReportFormat
    from creditscope.report.views import AuditView


def _panel(title: str) -> Callable[..., Any]:
    """Options that are shown together in the help."""
    return lambda text, metavar=None, *names, **rest: typer.Option(
        *names, metavar=metavar, help=text, rich_help_panel=title, **rest
    )


_network, _images, _claim = _panel("The network"), _panel("The images"), _panel("The claim")
_judging, _running = _panel("Judging"), _panel("Running and writing")
Weights = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="WEIGHTS|FOLDER",
        help="The folder of a run (`creditscope train`, `study`), a safetensors file, or a torch file of tensors.",
        show_default=False,
    ),
]
ArrayFiles = Annotated[
    list[Path] | None,
    _network(
        "States and gradients from another library, npz or safetensors, one file per batch; in place of WEIGHTS. "
        "Further files may follow it: --arrays batch-*.npz.",
        "FILE",
    ),
]
Reduction = Annotated[str, _network("Of the loss behind the gradients in --arrays.", "sum|mean")]
Network = Annotated[str | None, _network("One of ours: see `creditscope list networks`.", "NAME")]
Model = Annotated[str | None, _network("Your own function that returns the network.", "MODULE:FUNCTION")]
Options = Annotated[list[str] | None, _network("An option of the network, as in d=256. Repeatable.", "NAME=VALUE")]
Blocks = Annotated[str | None, _network("The path of its list of blocks, or module names separated by commas.", "PATH")]
Read = Annotated[str, _network("Which token represents a state: auto, first, mean, all or an index.", "RULE")]
Dataset = Annotated[str | None, _images("One of ours: see `creditscope list datasets`.", "NAME")]
Folder = Annotated[Path | None, _images("Where datasets are kept, instead of the cache folder.", "FOLDER")]
Batches = Annotated[Path | None, _images("A safetensors file with `inputs` and `labels`.", "FILE")]
BatchSize = Annotated[int, _images("Number of images per batch.", min=1, max=10**9)]
First = Annotated[int | None, _images("Use only the first N images.", min=1, max=10**12)]
Accuracies = Annotated[list[float] | None, _claim("Accuracy from 0 to 1, once per seed; default: measured.", "SHARE")]
Controls = Annotated[list[float] | None, _claim("Accuracy of the frozen-block control, once per seed.", "SHARE")]
ControlWeights = Annotated[
    list[Path] | None,
    _claim("Weights of the frozen control, asked the same images. Repeatable, one per seed.", "FILE"),
]
Initial = Annotated[
    Path | None,
    _claim("Weights before training; a control whose blocks differ from them is refused.", "FILE"),
]
Credit = Annotated[
    str | None,
    _claim("Your function: network -> its credit, a function Batch -> [a_0..a_L].", "MODULE:FUNCTION"),
]
Name = Annotated[str, _claim("Name of the network in the report.", show_default=False)]
Notes = Annotated[str, _claim("A remark to include in the report.", show_default=False)]
Protocol = Annotated[str, _judging("strict, three, four or april.")]
Thresholds = Annotated[list[str] | None, _judging("Override a limit, as in D1=100. Repeatable.", "CODE=VALUE")]
Check = Annotated[bool, _judging("First compare the backward pass with a finite difference.")]
Out = Annotated[
    list[Path] | None,
    _running("Write the report too; the suffix is the format (.json, .html). Repeatable.", "FILE", "--out"),
]
Format = Annotated[str | None, _running("Print this format: see `creditscope list formats`.", "NAME", "--format")]
Full = Annotated[bool, _running("Print every finding, column and number.", None, "--full")]
Brief = Annotated[bool, _running("Print three lines.", None, "--brief")]
Device = Annotated[str, _running("cpu, cuda, cuda:1 and so on.")]
Threads = Annotated[
    int | None, _running("Number of CPU threads; default of a run's folder: as it was trained.", min=1, max=4096)
]


@command("audit")
def audit(
    weights: Weights = None,
    network: Network = None,
    model: Model = None,
    option: Options = None,
    blocks: Blocks = None,
    read: Read = "auto",
    arrays: ArrayFiles = None,
    reduction: Reduction = "sum",
    data: Dataset = None,
    data_dir: Folder = None,
    batches: Batches = None,
    batch_size: BatchSize = 128,
    limit: First = None,
    accuracy: Accuracies = None,
    control_accuracy: Controls = None,
    control: ControlWeights = None,
    initial: Initial = None,
    credit: Credit = None,
    name: Name = "",
    notes: Notes = "",
    protocol: Protocol = DEFAULT,
    threshold: Thresholds = None,
    gradient_check: Check = True,
    out: Out = None,
    format: Format = None,
    full: Full = False,
    brief: Brief = False,
    device: Device = "cpu",
    threads: Threads = None,
    plugin: Plugins = None,
    trust_plugins: TrustPlugins = False,
) -> int:
    """Audit a trained network: check whether its accuracy and its alignment mean what they seem to.

    Exit code 0 pass, 1 fail, 3 inconclusive, 2 for bad input.

    The folder of a run needs no options: `creditscope audit runs/dfa`. Its frozen control is taken from
    runs/dfa/controls, or from a folder beside it. The report is saved in the run's record.json, where
    `creditscope report` and study pages find it. With options that change numbers (--limit, --protocol, ...) the
    record stays as it is. Modules that the record names are imported only with --plugin or --trust-plugins.

    Example: `creditscope audit dfa.safetensors --network resmlp --data mnist1d --control frozen.safetensors`

    A network of another library, such as JAX: `creditscope audit --arrays batch-*.npz --control-accuracy 0.31`
    """
    limits, settings = parsing.thresholds(threshold), parsing.pairs(option, "--option", "d=256")
    from creditscope.commands.report import output_formats, printed_format
    from creditscope.report.formats import formats

    files = output_formats(out)
    printed = formats[printed_format(format, full=full, brief=brief) or "text"]
    import torch

    from creditscope.commands.material import NetworkForm, check_arrays, check_run_folder, data_from, one_source

    if threads is not None:
        torch.set_num_threads(threads)
    place = parsing.device(device)
    options: dict[str, Any] = {
        "accuracy": accuracy,
        "control_accuracy": control_accuracy,
        "protocol": protocol,
        "thresholds": limits,
        "read": parsing.read(read),
        "name": name,
        "notes": notes,
    }
    named: dict[str, object] = {
        "network": network, "model": model, "option": option, "data": data, "batches": batches, "blocks": blocks,
        "control": control, "initial": initial, "credit": credit,
    }  # fmt: skip
    if arrays:
        check_arrays({**named, "limit": limit, "data-dir": data_dir})
        options["reduction"] = parsing.choice("reduction", reduction, ["sum", "mean"])
        return show(_of_arrays([*arrays, *(weights or [])], options), files, printed)
    source = one_source(weights)
    options["check_gradient"] = gradient_check
    with _fitting(batch_size, device):
        if source.is_dir():
            check_run_folder(source, named)
            options |= {"batch_size": batch_size, "limit": limit, "threads": threads, "device": str(place)}
            view = _of_run(source, {**options, "data_folder": data_dir, "trust_plugins": trust_plugins})
        else:
            form = NetworkForm(network, model, settings, data_from(data, data_dir, batches))
            options |= {"control": control, "initial": initial, "credit": credit, "blocks": parsing.blocks(blocks)}
            view = _of_weights(source, form, place, batch_size, limit, options)
    return show(view, files, printed)


def _of_arrays(files: list[Path], options: dict[str, Any]) -> AuditView:
    """States and gradients of another library."""
    from creditscope.auditing.arrays import audit_arrays
    from creditscope.report.views import from_report
    from creditscope.study.display.auditing import watching_audit

    with watching_audit("preparing the audit"):
        return from_report(audit_arrays(files, **{**options, "name": options["name"] or files[0].stem}))


def _of_run(folder: Path, options: dict[str, Any]) -> AuditView:
    """The folder of a run; its record gets the report."""
    from creditscope.report.views import from_runs
    from creditscope.runs.audit import audit_folder
    from creditscope.study.display.auditing import watching_audit

    with watching_audit(f"loading {folder.name}"):
        done = audit_folder(folder, **options)
    if done.unsaved:
        typer.echo(f"The report was not saved with the run: {done.unsaved}.", err=True)
    return from_runs([done.record])[0]


def _of_weights(
    file: Path, form: NetworkForm, device: torch.device, batch_size: int, limit: int | None, options: dict[str, Any]
) -> AuditView:
    """A file of weights; so are the control and the network before training among the options."""
    from creditscope.auditing.audit import audit as examine
    from creditscope.commands.material import credit_of, limited_batches
    from creditscope.report.views import from_report
    from creditscope.study.display.auditing import watching_audit

    subject = form.filled(file).to(device)
    control, initial, credit = options["control"], options["initial"], options["credit"]
    with watching_audit("preparing the audit"):
        given = {
            **options,
            "name": options["name"] or file.stem,
            "control": [form.filled(path).to(device) for path in control] if control else None,
            "initial": None if initial is None else form.filled(initial),
            "credit": None if credit is None else credit_of(credit, subject),
        }
        report = examine(subject, limited_batches(form.data.batches(batch_size), batch_size, limit), **given)
    return from_report(report)


@contextmanager
def _fitting(batch_size: int, device: str) -> Iterator[None]:
    """Memory that runs out is said to be the batch's."""
    import torch

    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise InvalidInput(
            f"A batch of {batch_size} images does not fit into the memory of {device}.\n"
            "Nothing was measured. Give a smaller --batch-size."
        ) from error


def show(view: AuditView, files: Mapping[Path, ReportFormat], printed: ReportFormat) -> int:
    """Print an audit and write its files; the exit code of its verdict."""
    say(printed.on_screen([view], width(), colour=coloured()).rstrip("\n"), painted=True)
    for path, entry in files.items():
        entry.write([view], path)
    return view.report.verdict.exit_code if view.report is not None else 0
