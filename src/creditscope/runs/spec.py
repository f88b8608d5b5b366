"""RunSpec: everything that decides one run, and its key, a hash of the resolved content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from pydantic import ValidationError

from creditscope.control import Control
from creditscope.errors import BadFile
from creditscope.options import Option, filled, options_of
from creditscope.records.declared import DeclaredRun
from creditscope.records.labels import IN_TITLE, PARTS, flatten, label
from creditscope.records.summary import Judgeable

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails


# Fields that came after the first release, with the default that they came with: left out of the hash while they hold
# it, so that old keys stay. Options of networks, methods and datasets follow the same rule through `LATER_OPTIONS`.
LATER_FIELDS: Mapping[str, Any] = {"optimiser": "adamw", "schedule": "cosine", "loss": "cross_entropy", "threads": 1}
LATER_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "data:teacher": {"inputs": 128, "classes": 10},
    "data:mnist": {"standardise": True},
    "data:fashion_mnist": {"standardise": True},
    "network:mlp": {"initial": "uniform"},
    "method:state_bridge": {"error_scale": 1.0, "index": "output", "relative": True},
    "method:credit_bridge": {
        "error_scale": 1.0,
        "index": "output",
        "matching": "top",
        "target": "soft_minimum",
        "warm_up": "gate",
    },
    "method:ep": {"updates_at": "free", "too_short": False},
    **{f"method:{name}": {"scale": 1.0} for name in ("fa_weights", "kolen_pollack", "weight_mirror")},
}


class RunSpec(DeclaredRun):
    """Everything that decides one run; equal specs have equal keys and give equal numbers."""

    def control_spec(self, control: str) -> RunSpec:
        """The same run as a control.

        Where no block learns there is nothing to penalise, so that a penalised run shares that control with the plain
        one.
        """
        wanted = Control.parse("frozen" if control == "ladder-0" else control)
        penalty = 0.0 if wanted.trains_no_block else self.penalty
        return self.model_copy(update={"control": str(wanted), "penalty": penalty})

    def settings(self, *, defaults: bool = False) -> dict[str, Option]:
        """The run as flat settings: {"network": "resmlp", "network.d": 256, ..., "epochs": 60}.

        Plugins are left out, and a single thread, which older records do not name.

        With `defaults` every option that was not given is there too; that imports torch.
        """
        options = {f"{part}_options": self.options(part) for part in PARTS} if defaults else {}
        flat = flatten({**self.model_dump(), **options})
        return {name: value for name, value in flat.items() if (name, value) != ("threads", 1)}

    def setting(self, key: str) -> Option | None:
        """One flat setting; an option that was not given has its default, which imports torch."""
        given = {**LATER_FIELDS, **self.settings()}
        return given[key] if key in given else self.settings(defaults=True).get(key)

    def options(self, part: str) -> dict[str, Option]:
        """Every option of the run's "network", "method" or "data", defaults filled in; imports torch."""
        name = getattr(self, part)
        return filled(part, name, options_of(part, registered(part)[name]), getattr(self, f"{part}_options"))

    def resolved(self) -> dict[str, Any]:
        """The content that is hashed: defaults filled in, revisions added, later fields left out at their default."""
        content = self.model_dump()
        for part in PARTS:
            later = LATER_OPTIONS.get(f"{part}:{getattr(self, part)}", {})
            options = self.options(part).items()
            content[f"{part}_options"] = {k: value for k, value in options if k not in later or value != later[k]}
        content["revisions"] = self.revisions
        return {
            name: value for name, value in content.items() if name not in LATER_FIELDS or value != LATER_FIELDS[name]
        }

    @property
    def revisions(self) -> dict[str, int]:
        """The revisions of its network, data, method and of the recipe; imports torch."""
        from creditscope.training.recipe import REVISION

        entries = {part: registered(part)[getattr(self, part)] for part in PARTS}
        return {part: entry.revision for part, entry in entries.items()} | {"recipe": REVISION}

    @property
    def key(self) -> str:
        """16 hexadecimal digits of the SHA-256 of the resolved content, seed included."""
        text = json.dumps(self.resolved(), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def title(self) -> str:
        """The label of a lone run: method, data, network, epochs and seed, and every setting that is not a default."""
        return self.title_without()

    def title_without(self, *names: str) -> str:
        """The title without some settings, for example "epochs" and "seed"."""
        run, fresh = self.settings(), RunSpec().settings()
        shown = [name for name in run if name in IN_TITLE or run[name] != fresh.get(name)]
        return label(run, [name for name in shown if name not in names])


def registered(part: str) -> Mapping[str, Any]:
    """The registry behind "network", "method" or "data"."""
    from creditscope.datasets import datasets
    from creditscope.methods import methods
    from creditscope.networks import networks

    registries: dict[str, Mapping[str, Any]] = {"network": networks, "method": methods, "data": datasets}
    return registries[part]


def first_problem(error: ValidationError) -> tuple[str, str]:
    """The first field of a spec that is invalid, and what is wrong with it: a predicate without a full stop."""
    first: ErrorDetails = error.errors()[0]
    name, given = str(first["loc"][0]), first["input"]
    if first["type"] == "value_error":  # raised by a validator of our own
        return name, f"has the invalid value {given!r}: {str(first['ctx']['error']).rstrip('.')}"
    if name not in RunSpec.model_fields:
        return name, "is not a setting of a run"
    if first["type"] == "less_than_equal":
        return name, f"must be at most {first['ctx']['le']:,}, got {given!r}"
    return name, f"must be {_demand(RunSpec.model_fields[name])}, got {given!r}"


KINDS = {int: "a whole number", float: "a finite number", bool: "true or false", str: "a text"}


def _demand(field: FieldInfo) -> str:
    """What a field accepts: its type and its least value."""
    choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    if choices:
        return f"one of {', '.join(map(str, choices))}"
    text = KINDS.get(field.annotation, "a table or list of texts, numbers, true and false")  # type: ignore[arg-type]
    for bound in field.metadata:
        text += f" of at least {bound.ge}" if hasattr(bound, "ge") else ""
        text += f" above {bound.gt}" if hasattr(bound, "gt") else ""
    return text


def read_spec(record: Judgeable, source: str) -> RunSpec:
    """The spec inside a record."""
    if not record.spec:
        raise BadFile(f"{source} has no spec.\nThe network cannot be rebuilt from it. Train the run again.")
    try:
        return RunSpec.model_validate(record.spec)
    except ValidationError as error:
        raise BadFile(f"{source} has no valid spec: {error}\nThe network cannot be rebuilt from it.") from error
