"""The study file: TOML, checked key by key before anything runs.

In [fixed] an array is one value, for an option that is a tuple. Everywhere else an array lists several values, so that
a tuple is an array inside it: "network.widths" = [[64, 32], [128]].
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from pydantic import Field

from creditscope.control import Control
from creditscope.errors import BadFile, InvalidInput, UnknownName
from creditscope.options import Option
from creditscope.reading import parse_toml, read_text
from creditscope.records.labels import PARTS
from creditscope.records.record import Record
from creditscope.registry import unknown
from creditscope.runs.spec import RunSpec

Settings = dict[str, Option]
Axes = dict[str, tuple[Option, ...]]

OPTION_FIELDS = tuple(f"{part}_options" for part in PARTS)
FIELDS = tuple(name for name in RunSpec.model_fields if name not in (*OPTION_FIELDS, "plugins"))
TOP = ("name", "title", "notes", "controls", "plugins", "stack", "fixed", "grid", "include", "exclude", "budget")
LARGEST = 2**22  # bytes of a study
MOST_AT_ONCE = 64  # runs that `stack = true` trains as one


class Budget(Record):
    """A size of a study: settings that override all others, and optionally controls and runs of its own.

    include   replaces the study's grid and additions, for a size in which networks or methods differ in length
    """

    settings: Axes = Field(default_factory=dict)
    controls: tuple[str, ...] | None = None
    include: tuple[Axes, ...] = ()


class Study(Record):
    """A declared set of runs: fixed settings, a grid, additions, exclusions and controls.

    Settings are flat: "epochs", "method", "network.d". `grid`, `include` and `exclude` hold a tuple of values for each.
    `stack` is how many runs that differ only in seed, learning rate, penalty or feedback are trained at once; keys do
    not know it.
    """

    source: str
    name: str
    title: str = ""
    notes: str = ""
    controls: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    stack: int = 1
    fixed: Settings = Field(default_factory=dict)
    grid: Axes = Field(default_factory=dict)
    include: tuple[Axes, ...] = ()
    exclude: tuple[Axes, ...] = ()
    budgets: dict[str, Budget] = Field(default_factory=dict)

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that its runs need imported: its plugins, and those of networks that a function makes."""
        tables = [self.grid, *self.include, *(budget.settings for budget in self.budgets.values())]
        tables += [added for budget in self.budgets.values() for added in budget.include]
        names = [self.fixed.get("network"), *(name for table in tables for name in table.get("network", ()))]
        made = [name.partition(":")[0] for name in names if isinstance(name, str) and ":" in name]
        return tuple(dict.fromkeys((*self.plugins, *made)))

    @classmethod
    def read(cls, path: Path | str) -> Study:
        """A study from its file."""
        return cls.parse(read_text(path, "The study", LARGEST), str(path))

    @classmethod
    def parse(cls, text: str, source: str = "the study") -> Study:
        """A study from TOML text; an unknown key or an invalid value is refused with its place."""
        try:
            content = parse_toml(text, source)
        except BadFile as error:
            raise BadFile(f"{error}{_quoting(text)}\nNothing was run.") from error
        if not content:
            raise InvalidInput(
                f"{source} declares nothing.\nNothing was run. Name a setting, such as method, in [fixed]."
            )
        for key in content:
            if key not in TOP:
                refuse(source, "", key, unknown("key of a study", key, list(TOP)))
        budgets = _table(source, "budget", content.get("budget", {}))
        return cls(
            source=source,
            name=_text(source, "name", content.get("name", Path(source).stem)),
            title=_text(source, "title", content.get("title", "")),
            notes=_text(source, "notes", content.get("notes", "")),
            controls=_controls(source, "", content.get("controls", [])),
            plugins=_texts(source, "", "plugins", content.get("plugins", [])),
            stack=_stack(source, content.get("stack", False)),
            fixed=_settings(source, "fixed", content.get("fixed", {})),
            grid=_axes(source, "grid", content.get("grid", {})),
            include=_listed(source, "include", content.get("include", [])),
            exclude=_listed(source, "exclude", content.get("exclude", [])),
            budgets={name: _budget(source, f"budget.{name}", table) for name, table in budgets.items()},
        )


def _stack(source: str, given: Any) -> int:
    """How many runs are trained at once."""
    if isinstance(given, bool):
        return MOST_AT_ONCE if given else 1
    if not isinstance(given, int) or given < 1:
        refuse(
            source, "", "stack", f"expected true, false or a whole number of at least 1, got {given!r}.", InvalidInput
        )
    return given


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
    return f'\nBeside the name of its owner an option needs quotes: "{bare[0]}" = ...' if bare else ""


def _budget(source: str, table: str, given: Any) -> Budget:
    own = dict(_table(source, table, given))
    controls = _controls(source, table, own.pop("controls")) if "controls" in own else None
    include = _listed(source, f"{table}.include", own.pop("include", []))
    return Budget(settings=_axes(source, table, own), controls=controls, include=include)


def _listed(source: str, table: str, given: Any) -> tuple[Axes, ...]:
    if not isinstance(given, list):
        refuse(source, "", table, f"it is a single table; write [[{table}]] with two brackets.", InvalidInput)
    return tuple(_axes(source, table, one) for one in given)


def _table(source: str, table: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        refuse(
            source,
            "",
            table,
            f"expected a table, got {given!r}; write [{table}] and the settings below it.",
            InvalidInput,
        )
    return given


def _flat(source: str, table: str, given: Any) -> dict[str, Any]:
    """One level: {"network": {"d": 64}} and {"network.d": 64} are the same; method.penalty is the field penalty.

    model = "package.module:factory" is the network of that name: any model, made by a function.
    """
    flat: dict[str, Any] = {}
    for key, value in _table(source, table, given).items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        for option, setting in inner:
            name = key if option in ("", "name") else f"{key}.{option}"
            name = "penalty" if name == "method.penalty" else name
            name = f"network{name.removeprefix('model')}" if name.partition(".")[0] == "model" else name
            _known_key(source, table, name)
            if name in flat:
                refuse(source, table, name, "it is set twice.", InvalidInput)
            flat[name] = setting
    return flat


def _known_key(source: str, table: str, key: str) -> None:
    part, dot, option = key.partition(".")
    if key not in FIELDS and not (part in PARTS and dot and option):
        known = [*FIELDS, *(f"{part}.OPTION" for part in PARTS)]
        refuse(source, table, key, unknown("setting", key, known))


def _settings(source: str, table: str, given: Any) -> Settings:
    flat = _flat(source, table, given)
    for key, value in flat.items():
        if isinstance(value, list) and key in FIELDS:
            refuse(source, table, key, "expected one value; a list of values belongs in [grid].", InvalidInput)
    return {key: _value(source, table, key, value) for key, value in flat.items()}


def _axes(source: str, table: str, given: Any) -> Axes:
    """Each setting as a tuple of values; a single value is a tuple of one."""
    axes: Axes = {}
    for key, value in _flat(source, table, given).items():
        values = value if isinstance(value, list) else [value]
        if not values:
            refuse(
                source,
                table,
                key,
                "the list is empty, so there would be no runs. Give at least one value.",
                InvalidInput,
            )
        axes[key] = tuple(_value(source, table, key, one) for one in values)
    return axes


def _value(source: str, table: str, key: str, value: Any) -> Option:
    if isinstance(value, list) and all(isinstance(part, bool | int | float | str) for part in value):
        return tuple(value)
    if not isinstance(value, bool | int | float | str):
        refuse(source, table, key, f"expected a number, a string, true or false, got {value!r}.", InvalidInput)
    return value


def _text(source: str, key: str, value: Any) -> str:
    if not isinstance(value, str):
        refuse(source, "", key, f'expected a string, got {value!r}; write {key} = "...".', InvalidInput)
    return value


def _texts(source: str, table: str, key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        refuse(source, table, key, f'expected a list of strings, got {value!r}; write {key} = ["..."].', InvalidInput)
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
