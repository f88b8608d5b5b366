"""How does a name become a network?  The seed fixes every bit of it."""

from __future__ import annotations

import hashlib
import inspect

import torch

from creditscope.errors import InvalidInput, UnknownName
from creditscope.networks import networks
from creditscope.networks.options import whole
from creditscope.networks.staged import StagedNetwork
from creditscope.registry import unknown

Option = bool | int | float
KINDS: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number"}


def options_of(name: str) -> dict[str, Option]:
    """Every option of a registered network, with its default."""
    parameters = inspect.signature(networks[name].__init__).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "generator"}


def build(name: str, inputs: int | tuple[int, ...], classes: int, seed: int, **options: Option) -> StagedNetwork:
    """The network called `name`, drawn from `seed` on the CPU.

    inputs    shape of one sample, or its number of features
    options   keyword options of the network's class; an unknown one is an error
    """
    known = options_of(name)
    for option, value in options.items():
        if option not in known:
            raise UnknownName(unknown(f"option of {name!r}", option, known) + f" See help({networks[name].__name__}).")
        _same_kind(option, value, known[option])
    whole("classes", classes, 2)
    shape = inputs if isinstance(inputs, int) else tuple(inputs)
    return networks[name](shape, classes, **options, generator=weight_generator(seed))


def weight_generator(seed: int) -> torch.Generator:
    """The generator of a network's weights, a stream of its own for every seed.

    Seeded with the bare seed it would repeat the numbers of whatever else the seed starts: weights and data, or
    weights and feedback, would be correlated (inputs drawn so gave median ‖h_0‖ = 10.5 in place of 9.2).
    """
    digest = hashlib.sha256(f"weights {whole('seed', seed, 0)}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:4], "big"))  # PyTorch's CPU engine keeps 32 bits


def _same_kind(option: str, value: Option, default: Option) -> None:
    """Refuse a value of another kind than the default, except a whole number where any number will do."""
    allowed = (int, float) if type(default) is float else (type(default),)
    if type(value) not in allowed:
        raise InvalidInput(
            f"{option} is {value!r}, of type {type(value).__name__}.\n"
            "It would be read as something else than was meant.\n"
            f"Give {KINDS.get(type(default), type(default).__name__)}, such as the default {default!r}."
        )
