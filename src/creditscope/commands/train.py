"""`creditscope train`: train a reference method and its controls under the common recipe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from creditscope.commands import Plugins, command, parsing, say
from creditscope.errors import DamagedFile, InvalidInput
from creditscope.terminal import complain

if TYPE_CHECKING:
    from creditscope.runs.spec import RunSpec

Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="The folder that the run is written to.")]
Method = Annotated[str, typer.Option(metavar="NAME", help="See `creditscope list methods`.")]
MethodOptions = Annotated[
    list[str] | None,
    typer.Option("--method-option", metavar="NAME=VALUE", help="As in index=input. Repeatable.", show_default=False),
]
Network = Annotated[str, typer.Option(metavar="NAME", help="See `creditscope list networks`.")]
Model = Annotated[
    str | None,
    typer.Option(metavar="MODULE:FUNCTION", help="Your own model, instead of --network.", show_default=False),
]
NetworkOptions = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="As in d=512. Repeatable.", show_default=False),
]
Data = Annotated[str, typer.Option(metavar="NAME", help="See `creditscope list datasets`.")]
DataOptions = Annotated[
    list[str] | None,
    typer.Option("--data-option", metavar="NAME=VALUE", help="As in widths=64,64. Repeatable.", show_default=False),
]
Folder = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="FOLDER", help="Where datasets are kept, instead of the cache folder."),
]
Whole = Annotated[int, typer.Option(parser=parsing.number, metavar="N")]  # the spec checks their values
Number = Annotated[float, typer.Option(parser=parsing.number, metavar="X")]
Penalty = Annotated[
    float, typer.Option(parser=parsing.number, metavar="X", help="λ of λ‖f(h)‖² in every block's local loss.")
]
Control = Annotated[
    str, typer.Option(metavar="NAME", help="Train this control instead of the run: frozen, shallow or ladder-K.")
]
Controls = Annotated[
    str, typer.Option(metavar="NAMES", help="Train these controls too, as in frozen,shallow.", show_default=False)
]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1 and so on.")]
Threads = Annotated[
    int, typer.Option(parser=parsing.number, metavar="N", help="CPU threads; part of the run, as sums round otherwise.")
]
DIVERGED = 1


@command("train")
def train(
    out: Out,
    method: Method = "bp",
    network: Network = "resmlp",
    model: Model = None,
    data: Data = "mnist1d",
    epochs: Whole = 100,
    seed: Whole = 42,
    option: NetworkOptions = None,
    method_option: MethodOptions = None,
    data_option: DataOptions = None,
    penalty: Penalty = 0.0,
    control: Control = "none",
    controls: Controls = "",
    batch_size: Whole = 128,
    learning_rate: Number = 1e-3,
    weight_decay: Number = 0.01,
    optimiser: Annotated[str, typer.Option(metavar="NAME", help="adamw, adam or sgd.")] = "adamw",
    schedule: Annotated[str, typer.Option(metavar="NAME", help="Of the learning rate: cosine or constant.")] = "cosine",
    loss: Annotated[
        str, typer.Option(metavar="NAME", help="cross_entropy, squared_error or sigmoid.")
    ] = "cross_entropy",
    augment: Annotated[bool, typer.Option(help="Crop and mirror as the dataset says.")] = True,
    data_dir: Folder = None,
    device: Device = "cpu",
    threads: Threads = 1,
    plugin: Plugins = None,
) -> int:
    """Train a network with a method, and its controls on request; an interrupted run resumes from its last snapshot.

    Exit code 0, 1 if the run diverged, 2 for bad input. A snapshot is written every 30 seconds.

    Example: `creditscope train --method dfa --data cifar10 --epochs 30 --controls frozen --out runs/dfa`
    """
    from pydantic import ValidationError

    from creditscope.runs.spec import RunSpec, first_problem

    try:
        spec = RunSpec(
            network=_network(network, model),
            network_options=parsing.pairs(option, "--option", "d=512"),
            data=data,
            data_options=parsing.pairs(data_option, "--data-option", "seed=1"),
            method=method,
            method_options=parsing.pairs(method_option, "--method-option", "index=input"),
            penalty=penalty,
            control=control,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            optimiser=cast(Any, optimiser),  # the spec refuses an unknown name
            schedule=cast(Any, schedule),
            loss=cast(Any, loss),
            augment=augment,
            seed=seed,
            threads=threads,
            plugins=tuple(plugin or ()),
        )
        names = _named(controls, control)
        control_specs = [spec.control_spec(name) for name in names]
    except ValidationError as error:
        field, why = first_problem(error)
        raise InvalidInput(f"{field} {why}.\nNothing was trained. Correct the value.") from error
    from creditscope.records.folder import CONTROLS
    from creditscope.runs.run import check

    place = str(parsing.device(device))
    for one in (spec, *control_specs):
        check(one, data_folder=data_dir)
    sound = _run(spec, out, data_dir, place)
    for name, control_spec in zip(names, control_specs, strict=True):
        _run(control_spec, out / CONTROLS / name, data_dir, place)
    say(f"Audit it: creditscope audit {out}")
    return 0 if sound else DIVERGED


def _network(network: str, model: str | None) -> str:
    """The name of the network: a registered one, or the function that makes the model."""
    if model is None:
        return network
    if network != "resmlp":
        raise InvalidInput(
            f"Both --network {network} and --model {model} were given.\nOne network is trained. Give one of the two."
        )
    if ":" not in model:
        raise InvalidInput(
            f"--model {model!r} does not name a function.\n"
            "There is no network to train. Write it as package.module:function; it is called with the options alone."
        )
    return model


def _named(controls: str, control: str) -> list[str]:
    """The controls that were asked for, each once; a control has none of its own."""
    names = list(dict.fromkeys(name.strip() for name in controls.split(",") if name.strip()))
    problem = f"be combined with --control {control}" if control != "none" else "include 'none'"
    if "none" in names or (names and control != "none"):
        raise InvalidInput(
            f"--controls cannot {problem}.\n"
            "The same run would be trained twice. Name frozen, shallow or ladder-K, without --control."
        )
    return names


def _run(spec: RunSpec, folder: Path, data_folder: Path | None, device: str) -> bool:
    """Train one spec into its folder, unless it is already there; whether it ran to its end."""
    from creditscope.records.folder import RECORD, recover_snapshot, snapshot_path
    from creditscope.runs.run import train_into
    from creditscope.study.display.training import watching

    record = _finished(folder, spec)
    known = "" if record is None else "already trained, "
    if record is None:
        parsing.writable(folder / RECORD, "The run")
        if notice := recover_snapshot(snapshot_path(folder)):
            complain(notice)
        with watching(spec.title, spec.epochs) as watcher:
            record = train_into(folder, spec, data_folder=data_folder, device=device, on_epoch=watcher)
    say(f"{spec.title}: {known}{_outcome(record)}, in {folder}")
    return record.diverged is None


def _finished(folder: Path, spec: RunSpec) -> Any:
    """The record of a finished run; a damaged one is set aside, which makes room for training it again."""
    from creditscope.records.folder import set_aside
    from creditscope.runs.run import finished

    try:
        return finished(folder, spec)
    except DamagedFile as error:
        reason = str(error).partition("\n")[0]
        complain(f"{reason}\nIt was moved to {set_aside(folder, reason)}, and the run is trained again.")
        return None


def _outcome(record: Any) -> str:
    if record.diverged is not None:
        where = "" if record.diverged.step is None else f", step {record.diverged.step}"
        return f"diverged in epoch {record.diverged.epoch + 1}{where}: {record.diverged.why}"
    return f"accuracy {record.accuracy:.3f}, {record.timings['seconds']:.0f} s"
