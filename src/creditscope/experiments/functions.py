"""The user's own functions, and one network trained by them, with the checks that make its result usable."""

from __future__ import annotations

import hashlib
import inspect
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from creditscope.arguments import calling
from creditscope.control import Control
from creditscope.errors import InvalidInput, ModelMismatch
from creditscope.experiments.variants import as_control
from creditscope.statistics.shares import checked_shares
from creditscope.stream.isolation import preserved_rng
from creditscope.stream.unwrap import bare

MakeModel = Callable[[int], nn.Module]
Train = Callable[[nn.Module, int], Any]
Evaluate = Callable[[nn.Module], float]


@dataclass(frozen=True, slots=True)
class UserFunctions:
    """What is trained, how, and how it is judged: three functions of the user.

    Before each call the random generators of torch, NumPy and Python are seeded with the seed, so that a run does not
    depend on those before it; afterwards they are as they were.
    """

    make_model: MakeModel
    train: Train
    evaluate: Evaluate

    def __post_init__(self) -> None:
        check_callable(self.make_model, "make_model", "(seed)", 1)
        check_callable(self.train, "train", "(model, seed)", 2)
        check_callable(self.evaluate, "evaluate", "(model)", 1)

    def fresh(self, seed: int) -> nn.Module:
        """The untrained network of a seed."""
        with preserved_rng(), calling("make_model", "a function of a seed that returns the untrained network"):
            _seed(seed)
            model = self.make_model(seed)
        if not isinstance(model, nn.Module):
            raise InvalidInput(
                f"make_model({seed}) returned a {type(model).__name__}, not a torch.nn.Module.\n"
                "There is nothing to train. Return the untrained network."
            )
        return model

    def trained(self, seed: int, variant: str, control: Control, blocks: tuple[str, ...]) -> nn.Module:
        """The network of a seed as this variant, trained; one that did not learn, or moved while frozen, is refused."""
        made = self.fresh(seed)
        network = as_control(bare(made), control, blocks)
        before = {name: p.detach().clone() for name, p in network.named_parameters()}
        frozen = {name for name, p in network.named_parameters() if not p.requires_grad}
        with preserved_rng(), calling("train", "a function (model, seed) that trains the model"):
            _seed(seed)
            answer = self.train(made, seed)
        result = bare(answer) if isinstance(answer, nn.Module) else network
        after = dict(result.named_parameters())
        _check_same_form(before, after, variant)
        moved = [name for name, value in before.items() if not _equal(after[name], value)]
        if broken := [name for name in moved if name in frozen]:
            raise InvalidInput(
                f"Training changed {broken[0]} and {len(broken) - 1} more parameters that the control froze "
                f"({variant}, seed {seed}).\n"
                "The control would be trained too, and depth would look useless. Let your loop skip parameters whose "
                "requires_grad is False: no gradient, no weight decay."
            )
        if not moved:
            raise InvalidInput(
                f"train(model, {seed}) returned {_kind(answer)} and changed no parameter ({variant}).\n"
                "An untrained network would be audited. Train the model in place, or return the trained one."
            )
        return result

    def evaluated(self, network: nn.Module) -> float:
        """The user's own accuracy of a network, a share from 0 to 1."""
        with preserved_rng(), calling("evaluate", "a function of a model that returns its accuracy"):
            answer = self.evaluate(network)
        (share,) = checked_shares([answer], "evaluate(model)")
        return share

    def digest(self) -> str:
        """A digest of the code of make_model and train: a store refuses runs of other code.

        Only the code of the two functions counts, not what they call; a callable without code of its own has none.
        """
        return hashlib.sha256("".join(map(_code, (self.make_model, self.train))).encode()).hexdigest()[:16]


def weights_digest(network: nn.Module) -> str:
    """A digest of the names, shapes and values of all parameters and buffers."""
    digest = hashlib.sha256()
    for name, tensor in network.state_dict().items():
        if isinstance(tensor, Tensor):
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def check_callable(function: Any, name: str, form: str, count: int) -> None:
    """Refuse what is not a function of so many arguments, before anything is trained."""
    if not callable(function) or isinstance(function, nn.Module):
        raise InvalidInput(
            f"{name} is a {type(function).__name__}, not a function.\n"
            f"Nothing could be trained. Pass a function {name}{form}."
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin without a signature
        return
    try:
        signature.bind(*range(count))
    except TypeError as error:
        raise InvalidInput(
            f"{name}{signature} cannot be called as {name}{form}: {error}.\n"
            f"The experiment would stop in the middle. Pass a function {name}{form}."
        ) from error


def _check_same_form(before: Mapping[str, Tensor], after: Mapping[str, Tensor], variant: str) -> None:
    if {name: value.shape for name, value in before.items()} != {name: value.shape for name, value in after.items()}:
        other = sorted(before.keys() ^ after.keys()) or [k for k in before if before[k].shape != after[k].shape]
        raise ModelMismatch(
            f"train returned another architecture than make_model made ({variant}): {', '.join(other[:4])} differ.\n"
            "Variants would differ in more than their training. Return the network that was passed in."
        )


def _equal(value: Tensor, start: Tensor) -> bool:
    """Whether a parameter has not moved; NaN counts as moved."""
    return torch.equal(value.detach().to(start.device, start.dtype), start)


def _kind(answer: Any) -> str:
    return "nothing" if answer is None else f"a {type(answer).__name__}"


def _seed(seed: int) -> None:
    random.seed(seed)
    numpy.random.seed(seed % 2**32)  # noqa: NPY002  (loops of others draw from the legacy state)
    torch.manual_seed(seed)


def _code(function: Any) -> str:
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return _described(code) if code is not None else ""


def _described(code: CodeType) -> str:
    constants = [
        _described(c) if isinstance(c, CodeType) else repr(sorted(map(repr, c)) if isinstance(c, frozenset) else c)
        for c in code.co_consts
    ]
    return "|".join([code.co_code.hex(), *constants, *code.co_names])
