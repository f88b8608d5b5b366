"""What decides one run?  A RunSpec, whose key is a hash of its resolved content."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping
from typing import Any

from pydantic import Field, field_validator

from creditscope.errors import InvalidInput, UnknownName
from creditscope.records.record import Record
from creditscope.registry import unknown

Options = dict[str, bool | int | float | str]

# Fields that came after the first release, with the default that they came with: left out of the hash while they hold
# it, so that old keys stay. Options of networks, methods and datasets follow the same rule through `LATER_OPTIONS`.
LATER_FIELDS: Mapping[str, Any] = {}
LATER_OPTIONS: Mapping[str, Mapping[str, Any]] = {}


class RunSpec(Record):
    """Everything that decides one run; equal specs have equal keys and give equal numbers."""

    network: str = "resmlp"
    network_options: Options = Field(default_factory=dict)
    data: str = "mnist1d"
    data_options: Options = Field(default_factory=dict)
    method: str = "bp"
    method_options: Options = Field(default_factory=dict)
    penalty: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    control: str = "none"
    epochs: int = Field(default=100, ge=0)
    batch_size: int = Field(default=128, ge=1)
    learning_rate: float = Field(default=1e-3, gt=0, allow_inf_nan=False)
    weight_decay: float = Field(default=0.01, ge=0, allow_inf_nan=False)
    augment: bool = True
    random_labels: bool = False
    seed: int = Field(default=42, ge=0)
    plugins: tuple[str, ...] = ()

    @field_validator("control")
    @classmethod
    def _known_control(cls, control: str) -> str:
        kind, dash, rung = control.partition("-")
        if control in ("none", "frozen", "shallow") or (kind == "ladder" and dash and rung.isdigit()):
            return control
        raise ValueError(f"there is no control called {control!r}: none, frozen, shallow, ladder-0, ladder-1, ...")

    def twin(self, control: str) -> RunSpec:
        """The same run as a control.

        Where no block learns there is nothing to penalise, so that a penalised run shares its twin with the plain one.
        """
        control = "frozen" if control == "ladder-0" else control
        penalty = 0.0 if control in ("frozen", "shallow") else self.penalty
        return RunSpec.model_validate({**self.model_dump(), "control": control, "penalty": penalty})

    def resolved(self) -> dict[str, Any]:
        """The content that is hashed: defaults filled in, revisions added, later fields left out at their default."""
        from creditscope.datasets import datasets
        from creditscope.methods import methods
        from creditscope.networks import networks
        from creditscope.training.recipe import REVISION

        content = self.model_dump()
        content["network_options"] = _filled("network", self.network, networks[self.network], self.network_options)
        content["method_options"] = _filled("method", self.method, methods[self.method], self.method_options)
        content["data_options"] = _filled("data", self.data, datasets[self.data], self.data_options)
        content["revisions"] = {
            "network": networks[self.network].revision,
            "method": methods[self.method].revision,
            "data": datasets[self.data].revision,
            "recipe": REVISION,
        }
        return {
            name: value for name, value in content.items() if name not in LATER_FIELDS or value != LATER_FIELDS[name]
        }

    @property
    def key(self) -> str:
        """16 hexadecimal digits of the SHA-256 of the resolved content, seed included."""
        text = json.dumps(self.resolved(), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def title(self) -> str:
        """A short name for people."""
        penalty = f" + penalty {self.penalty:g}" if self.penalty else ""
        control = "" if self.control == "none" else f", {self.control}"
        labels = " with random labels" if self.random_labels else ""
        method = f"{_named(self.method, self.method_options)}{penalty}{control}"
        data, network = _named(self.data, self.data_options), _named(self.network, self.network_options)
        return f"{method} on {data}{labels}, {network}, {self.epochs} epochs, seed {self.seed}"


def _named(name: str, options: Mapping[str, Any]) -> str:
    """A name with the options that were given."""
    given = ", ".join(f"{option}={value}" for option, value in sorted(options.items()))
    return f"{name}({given})" if given else name


def _as_introduced(field: str, value: Any) -> bool:
    """Whether a later field holds the default that it came with."""
    return field in LATER_FIELDS and bool(value == LATER_FIELDS[field])


def known_options(entry: Any) -> dict[str, Any]:
    """The keyword options of a registered entry, with their defaults."""
    signature = inspect.signature(entry.__init__ if inspect.isclass(entry) else entry)
    return {
        parameter.name: parameter.default
        for parameter in signature.parameters.values()
        if parameter.default is not parameter.empty and parameter.name not in ("inputs", "classes", "folder")
    }


def _filled(kind: str, name: str, entry: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    known = known_options(entry)
    for option, value in given.items():
        if option not in known:
            raise UnknownName(unknown(f"option of {kind} {name!r}", option, known))
        default = known[option]
        if type(value) is not type(default) and not (type(default) is float and type(value) is int):
            raise InvalidInput(
                f"{option} of {kind} {name!r} is {value!r}, of type {type(value).__name__}.\n"
                f"It would be read as something else. Give it as {default!r} is given."
            )
    later = LATER_OPTIONS.get(f"{kind}:{name}", {})
    filled = {option: _number(given.get(option, default), default) for option, default in known.items()}
    return {option: value for option, value in filled.items() if option not in later or value != later[option]}


def _number(value: Any, default: Any) -> Any:
    """1 and 1.0 are the same value of a float option."""
    return float(value) if type(default) is float else value
