"""Labels of runs: the method with its options, penalty and control, then whatever differs between the runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

Settings = Mapping[str, Any]  # flat: {"method": "dfa", "method.index": "input", "network.d": 256, "seed": 1, ...}

PARTS = ("network", "data", "method")  # what has options of its own
ALWAYS = ("method", "penalty", "control")  # part of every label, like the options of the method
IN_TITLE = ("data", "network", "epochs", "seed")  # what the title of a run shows in any case
WORDED = ("data", "random_labels", "network", "epochs", "seed")  # settings with a phrase of their own


def flatten(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec as flat settings, without plugins: {"network_options": {"d": 8}} becomes {"network.d": 8}."""
    flat: dict[str, Any] = {}
    for name, value in spec.items():
        part = name.removesuffix("_options")
        if part != name and part in PARTS:
            flat |= {f"{part}.{option}": setting for option, setting in value.items()}
        elif name != "plugins":
            flat[name] = value
    return flat


def varied(runs: Iterable[Settings]) -> list[str]:
    """The settings that differ between runs, in their order."""
    known = list(runs)
    names = dict.fromkeys(name for run in known for name in run)
    return [name for name in names if len({repr(run.get(name)) for run in known}) > 1]


def labels(runs: Sequence[Settings], *, without: Collection[str] = ()) -> list[str]:
    """A label for each run that shows whatever differs between them, `without` some settings."""
    shown = [name for name in varied(runs) if name not in without]
    return [label(run, shown) for run in runs]


def label(run: Settings, shown: Collection[str] = ()) -> str:
    """One run with the settings `shown`: `dfa(index=input) + penalty 0.01, frozen on mnist1d, resmlp(d=16), seed 1`."""
    text = named(run, "method")
    text += f" + penalty {written(run['penalty'])}" if run.get("penalty") else ""
    text += f", {run['control']}" if run.get("control", "none") != "none" else ""
    text += f" on {named(run, 'data', shown)}" if _shows(run, "data", shown) else ""
    text += " with random labels" if "random_labels" in shown and run.get("random_labels") else ""
    text += f", {named(run, 'network', shown)}" if _shows(run, "network", shown) else ""
    plain = [name for name in shown if "." not in name and name not in (*ALWAYS, *WORDED) and name in run]
    text += "".join(f", {name} {written(run[name])}" for name in plain)
    text += f", {counted(run['epochs'], 'epoch')}" if "epochs" in shown and "epochs" in run else ""
    return text + (f", seed {run['seed']}" if "seed" in shown and "seed" in run else "")


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: 1 run, 12 runs, 8 batches."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _shows(run: Settings, part: str, shown: Collection[str]) -> bool:
    return any(name == part or (name.startswith(f"{part}.") and name in run) for name in shown)


def named(run: Settings, part: str, shown: Collection[str] | None = None) -> str:
    """The name of a network, dataset or method with the options `shown`, by default all that are given."""
    options = sorted(name for name in (run if shown is None else shown) if name.startswith(f"{part}.") and name in run)
    given = ", ".join(f"{name.removeprefix(f'{part}.')}={written(run[name])}" for name in options)
    name = str(run.get(part, "run"))
    return f"{name}({given})" if given else name


def written(value: Any) -> str:
    """A value as a study file has it: true, 0.01, [1, 2]."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(written(one) for one in value)}]"
    short = f"{value:g}" if isinstance(value, float) else str(value)
    return short if not isinstance(value, float) or float(short) == value else repr(value)
