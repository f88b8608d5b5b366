"""DeclaredRun: everything that decides one run, as a record or a study declares it; names are not looked up yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator

from creditscope.control import Control
from creditscope.errors import UnknownName
from creditscope.options import Option
from creditscope.records.record import Record


def _tuples(given: object) -> object:
    """TOML and JSON have arrays where an option is a tuple."""
    if not isinstance(given, Mapping):
        return given
    return {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}


Options = Annotated[dict[str, Option], BeforeValidator(_tuples)]


class DeclaredRun(Record):
    """The settings of one run; `threads` is part of them because sums round otherwise with another number."""

    network: str = "resmlp"
    network_options: Options = Field(default_factory=dict)
    data: str = "mnist1d"
    data_options: Options = Field(default_factory=dict)
    method: str = "bp"
    method_options: Options = Field(default_factory=dict)
    penalty: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    control: str = "none"
    epochs: int = Field(default=100, ge=0, le=1_000_000)
    batch_size: int = Field(default=128, ge=1, le=10**9)
    learning_rate: float = Field(default=1e-3, gt=0, allow_inf_nan=False)
    weight_decay: float = Field(default=0.01, ge=0, allow_inf_nan=False)
    augment: bool = True
    random_labels: bool = False
    optimiser: Literal["adamw", "adam", "sgd"] = "adamw"
    schedule: Literal["cosine", "constant"] = "cosine"
    loss: Literal["cross_entropy", "squared_error", "sigmoid"] = "cross_entropy"
    seed: int = Field(default=42, ge=0, le=2**63 - 1)
    threads: int = Field(default=1, ge=1, le=1024)
    plugins: tuple[str, ...] = ()

    @field_validator("control")
    @classmethod
    def _known_control(cls, control: str) -> str:
        try:
            return str(Control.parse(control))
        except UnknownName as error:
            raise ValueError(str(error).replace("\n", " ")) from error

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that the run needs imported: its plugins, and the module of a network that a function makes."""
        module, colon, _ = self.network.partition(":")
        return (*self.plugins, *([module] if colon and module not in self.plugins else []))
