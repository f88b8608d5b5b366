"""What does a study file say?  A TOML file, checked key by key before anything runs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from pydantic import Field

from creditscope.control import Control
from creditscope.errors import BadFile, InvalidInput, UnknownName
from creditscope.files import read_text
from creditscope.records.labels import PARTS
from creditscope.records.record import Record
from creditscope.registry import unknown
from creditscope.runs.spec import RunSpec

Value = bool | int | float | str
Settings = dict[str, Value]
Axes = dict[str, tuple[Value, ...]]

OPTION_FIELDS = tuple(f"{part}_options" for part in PARTS)
FIELDS = tuple(name for name in RunSpec.model_fields if name not in (*OPTION_FIELDS, "plugins"))
TOP = ("name", "title", "notes", "controls", "plugins", "fixed", "grid", "include", "exclude", "budget")


class Budget(Record):
    """A size of a study: settings with the last word, and, where it has them, controls and runs of its own.

    include   in the place of the study's grid and additions, for a size in which networks or methods differ in length
    """

    settings: Axes = Field(default_factory=dict)
    controls: tuple[str, ...] | None = None
    include: tuple[Axes, ...] = ()


class Study(Record):
    """A declared set of runs: what is fixed, what is varied, what is added, left out, and controlled.

    Settings are flat: "epochs", "method", "network.d". Every value of `grid`, `include` and `exclude` is a tuple.
    """

    source: str
    name: str
    title: str = ""
    notes: str = ""
    controls: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    fixed: Settings = Field(default_factory=dict)
    grid: Axes = Field(default_factory=dict)
    include: tuple[Axes, ...] = ()
    exclude: tuple[Axes, ...] = ()
    budgets: dict[str, Budget] = Field(default_factory=dict)

    @classmethod
    def read(cls, path: Path | str) -> Study:
        """A study from its file."""
        return cls.parse(read_text(path, "The study"), str(path))

    @classmethod
    def parse(cls, text: str, source: str = "the study") -> Study:
        """A study from TOML text; a key or value that cannot be meant is refused with its place."""
        try:
            found = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise BadFile(f"{source} is not valid TOML: {error}.{_quoting(text)}\nNothing was run.") from error
        for key in found:
            if key not in TOP:
                refuse(source, "", key, unknown("key of a study", key, list(TOP)))
        budgets = _table(source, "budget", found.get("budget", {}))
        return cls(
            source=source,
            name=_text(source, "name", found.get("name", Path(source).stem)),
            title=_text(source, "title", found.get("title", "")),
            notes=_text(source, "notes", found.get("notes", "")),
            controls=_controls(source, "", found.get("controls", [])),
            plugins=_texts(source, "", "plugins", found.get("plugins", [])),
            fixed=_settings(source, "fixed", found.get("fixed", {})),
            grid=_axes(source, "grid", found.get("grid", {})),
            include=_listed(source, "include", found.get("include", [])),
            exclude=_listed(source, "exclude", found.get("exclude", [])),
            budgets={name: _budget(source, f"budget.{name}", table) for name, table in budgets.items()},
        )


def refuse(source: str, table: str, key: str, why: str, kind: type[Exception] = UnknownName) -> NoReturn:
    """Raise an error that names file, table and key."""
    where = f"[{table}] {key}" if table else key
    raise kind(f"{source}, {where}: {why}\nNothing was run.")


def _quoting(text: str) -> str:
    """A hint for the likeliest mistake: network = "..." and network.d = ... in one table."""
    bare = [
        line.split("=")[0].strip()
        for line in text.splitlines()
        if line.strip().startswith(tuple(f"{p}." for p in PARTS))
    ]
    return f'\nOptions beside their owner\'s name need quotes: "{bare[0]}" = ...' if bare else ""


def _budget(source: str, table: str, found: Any) -> Budget:
    own = dict(_table(source, table, found))
    controls = _controls(source, table, own.pop("controls")) if "controls" in own else None
    include = _listed(source, f"{table}.include", own.pop("include", []))
    return Budget(settings=_axes(source, table, own), controls=controls, include=include)


def _listed(source: str, table: str, found: Any) -> tuple[Axes, ...]:
    if not isinstance(found, list):
        refuse(source, "", table, f"it is one table; write [[{table}]] with two brackets.", InvalidInput)
    return tuple(_axes(source, table, one) for one in found)


def _table(source: str, table: str, found: Any) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        refuse(source, "", table, f"{found!r} is no table; write [{table}] and settings below it.", InvalidInput)
    return found


def _flat(source: str, table: str, found: Any) -> dict[str, Any]:
    """One level: {"network": {"d": 64}} and {"network.d": 64} are the same; method.penalty is the field penalty."""
    flat: dict[str, Any] = {}
    for key, value in _table(source, table, found).items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        for option, setting in inner:
            name = key if option in ("", "name") else f"{key}.{option}"
            name = "penalty" if name == "method.penalty" else name
            _known_key(source, table, name)
            if name in flat:
                refuse(source, table, name, "it is given twice.", InvalidInput)
            flat[name] = setting
    return flat


def _known_key(source: str, table: str, key: str) -> None:
    part, dot, option = key.partition(".")
    if key not in FIELDS and not (part in PARTS and dot and option):
        known = [*FIELDS, *(f"{part}.OPTION" for part in PARTS)]
        refuse(source, table, key, unknown("setting", key, known))


def _settings(source: str, table: str, found: Any) -> Settings:
    flat = _flat(source, table, found)
    for key, value in flat.items():
        if isinstance(value, list):
            refuse(source, table, key, "a list of values is an axis; it belongs into [grid].", InvalidInput)
    return {key: _value(source, table, key, value) for key, value in flat.items()}


def _axes(source: str, table: str, found: Any) -> Axes:
    """Each setting as a tuple of values, one value being an axis of length 1."""
    axes: Axes = {}
    for key, value in _flat(source, table, found).items():
        values = value if isinstance(value, list) else [value]
        if not values:
            refuse(source, table, key, "the list is empty, so that there are zero runs. Give a value.", InvalidInput)
        axes[key] = tuple(_value(source, table, key, one) for one in values)
    return axes


def _value(source: str, table: str, key: str, value: Any) -> Value:
    if not isinstance(value, bool | int | float | str):
        refuse(source, table, key, f"{value!r} is neither a number, a text nor true or false.", InvalidInput)
    return value


def _text(source: str, key: str, value: Any) -> str:
    if not isinstance(value, str):
        refuse(source, "", key, f'{value!r} is no text; write {key} = "...".', InvalidInput)
    return value


def _texts(source: str, table: str, key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        refuse(source, table, key, f'{value!r} is no list of texts; write {key} = ["..."].', InvalidInput)
    return tuple(value)


def _controls(source: str, table: str, value: Any) -> tuple[str, ...]:
    names = _texts(source, table, "controls", value)
    for name in names:
        try:
            known = name == "ladder" or Control.parse(name) != Control()
        except UnknownName:
            known = False
        if not known:
            refuse(source, table, "controls", unknown("control", name, ["frozen", "shallow", "ladder", "ladder-1"]))
    return names
