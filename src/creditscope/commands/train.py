"""Train a reference method, or one of its controls, under the common recipe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from creditscope.commands import Plugins, command, say
from creditscope.commands import options as words
from creditscope.errors import InvalidInput

if TYPE_CHECKING:
    from creditscope.runs.spec import RunSpec

Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the checkpoint goes.")]
Method = Annotated[str, typer.Option(metavar="NAME", help="See `creditscope list methods`.")]
MethodOptions = Annotated[
    list[str] | None,
    typer.Option("--method-option", metavar="NAME=VALUE", help="As in index=input. Repeatable.", show_default=False),
]
Network = Annotated[str, typer.Option(metavar="NAME", help="See `creditscope list networks`.")]
NetworkOptions = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="As in d=512.", show_default=False),
]
Data = Annotated[str, typer.Option(metavar="NAME", help="See `creditscope list datasets`.")]
Folder = Annotated[Path | None, typer.Option("--data-dir", metavar="FOLDER", help="Where datasets are kept.")]
Penalty = Annotated[float, typer.Option(help="λ of λ‖f(h)‖² in every block's local loss.")]
Control = Annotated[str, typer.Option(metavar="NAME", help="Train only this: none, frozen, shallow, ladder-K.")]
Controls = Annotated[
    str, typer.Option(metavar="NAMES", help="Train these twins too, as in frozen,shallow.", show_default=False)
]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1 and so on.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of the CPU.", show_default=False)]
DIVERGED = 1


@command("train")
def train(
    out: Out,
    method: Method = "bp",
    network: Network = "resmlp",
    data: Data = "mnist1d",
    epochs: Annotated[int, typer.Option(min=0)] = 100,
    seed: Annotated[int, typer.Option(min=0)] = 42,
    option: NetworkOptions = None,
    method_option: MethodOptions = None,
    penalty: Penalty = 0.0,
    control: Control = "none",
    controls: Controls = "",
    batch_size: Annotated[int, typer.Option(min=1)] = 128,
    learning_rate: float = 1e-3,
    weight_decay: float = 0.01,
    augment: Annotated[bool, typer.Option(help="Crop and mirror as the dataset says.")] = True,
    data_dir: Folder = None,
    device: Device = "cpu",
    threads: Threads = None,
    plugin: Plugins = None,
) -> int:
    """Train a network by a method, with its controls on request; interrupted, it goes on from its last snapshot.

    Exit code 0, 1 if the run diverged, 2 for bad input. A snapshot is written every half minute.

    Example: `creditscope train --method dfa --data cifar10 --epochs 30 --controls frozen --out runs/dfa`
    """
    from pydantic import ValidationError

    from creditscope.runs.spec import RunSpec

    try:
        spec = RunSpec(
            network=network,
            network_options=words.pairs(option, "--option", "d=512"),
            data=data,
            method=method,
            method_options=words.pairs(method_option, "--method-option", "index=input"),
            penalty=penalty,
            control=control,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            augment=augment,
            seed=seed,
            plugins=tuple(plugin or ()),
        )
        names = _named(controls, control)
        twins = [spec.control_spec(name) for name in names]
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(
            f"{where} = {first['input']!r}: {first['msg']}.\nNothing was trained. Correct it."
        ) from error
    import torch

    from creditscope.runs.run import check

    if threads is not None:
        torch.set_num_threads(threads)
    place = str(words.device(device))
    for one in (spec, *twins):
        check(one, data_folder=data_dir)
    sound = _run(spec, out, data_dir, place)
    for name, twin in zip(names, twins, strict=True):
        _run(twin, out / "controls" / name, data_dir, place)
    say(f"Audit it: creditscope audit {out}")
    return 0 if sound else DIVERGED


def _named(controls: str, control: str) -> list[str]:
    """The twins that were asked for, each once; a control has none."""
    names = list(dict.fromkeys(name.strip() for name in controls.split(",") if name.strip()))
    if "none" in names or (names and control != "none"):
        raise InvalidInput(
            f"--controls {controls} asks for twins of {'a control' if control != 'none' else 'no control'}.\n"
            "The same run would be trained twice. Name frozen, shallow or ladder-K, beside --control none."
        )
    return names


def _run(spec: RunSpec, folder: Path, data_folder: Path | None, device: str) -> bool:
    """Train one spec into its folder, unless it is there already; whether it came to its end."""
    from creditscope.records.run import RECORD, RunRecord
    from creditscope.runs.run import train as fit_spec
    from creditscope.study.display.training import watching

    if (folder / RECORD).exists():
        found = RunRecord.from_json(folder / RECORD)
        if found.key != spec.key:
            raise InvalidInput(
                f"{folder} holds another run: key {found.key}, this one is {spec.key}.\n"
                "It would be overwritten. Choose another --out, or remove the folder."
            )
        say(f"{spec.title}: already there, {_outcome(found)}, in {folder}")
        return found.diverged is None
    words.writable(folder / RECORD, "The run")
    snapshot = folder / "snapshot.safetensors"
    with watching(spec.title, spec.epochs) as watcher:
        checkpoint = fit_spec(spec, data_folder=data_folder, device=device, on_epoch=watcher, snapshot=snapshot)
    checkpoint.save(folder)
    snapshot.unlink(missing_ok=True)
    say(f"{spec.title}: {_outcome(checkpoint.record)}, in {folder}")
    return checkpoint.record.diverged is None


def _outcome(record: Any) -> str:
    if record.diverged is not None:
        where = "" if record.diverged.step is None else f", step {record.diverged.step}"
        return f"diverged in epoch {record.diverged.epoch + 1}{where}: {record.diverged.why}"
    return f"accuracy {record.accuracy:.3f}, {record.timings['seconds']:.0f} s"
