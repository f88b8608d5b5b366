"""The network, weights and batches of an audit, from command-line options."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from creditscope.errors import BadFile, CreditscopeError, InvalidInput
from creditscope.options import Option

if TYPE_CHECKING:
    from torch import Tensor, nn

    from creditscope.batch import Batch

BATCHES_FORM = "It must hold the tensors `inputs` (N, ...) and `labels` (N,), with N at least 1."


@dataclass(frozen=True, slots=True)
class Data:
    """Images to audit on: the shape of one, the number of classes if known, and a way to take batches of a size."""

    shape: tuple[int, ...]
    classes: int | None
    batches: Callable[[int], Iterator[Batch]]


def data_from(name: str | None, folder: Path | None, file: Path | None) -> Data:
    """The test images of a registered dataset, or those of a safetensors file."""
    if (name is None) == (file is None):
        raise InvalidInput(
            f"{'Neither --data nor --batches was' if name is None else 'Both --data and --batches were'} given.\n"
            "An audit needs images from one place. Give --data NAME or --batches FILE."
        )
    if file is not None:
        return stored_batches(file)
    from creditscope.datasets import datasets

    dataset = datasets[str(name)](folder)
    return Data(dataset.shape, dataset.classes, dataset.test_batches)


def one_source(paths: list[Path] | None) -> Path:
    """The one file or folder that was named."""
    if not paths or len(paths) > 1:
        count = f"{len(paths)} were given" if paths else "none was given"
        raise InvalidInput(
            f"An audit needs one weights file or folder, {count}.\n"
            "Nothing was measured. Name one; several files are batches of arrays only after --arrays."
        )
    if not paths[0].exists():
        raise BadFile(
            f"{paths[0]} cannot be read: there is no such file or folder.\nNothing was measured. Check the path."
        )
    return paths[0]


def check_arrays(given: dict[str, object]) -> None:
    """Refuse options about a network or its images beside --arrays."""
    clashing = [f"--{name}" for name, value in given.items() if value]
    if clashing:
        raise InvalidInput(
            f"--arrays holds what a network computed, so {' and '.join(clashing)} cannot apply.\n"
            "The network is not run again. Leave it out, or audit the network itself."
        )


def check_run_folder(folder: Path, given: dict[str, object]) -> None:
    """Refuse a folder without a run, and options that would contradict the record of the run in it."""
    from creditscope.records.folder import RECORD, WEIGHTS

    if not (folder / RECORD).is_file():
        raise BadFile(
            f"{folder} cannot be read: it is a folder without {RECORD}, so it holds no run.\n"
            "The network in it is unknown. Name a folder made by `creditscope train`, or a weights file."
        )
    clashing = [f"--{name}" for name, value in given.items() if value]
    if clashing:
        raise InvalidInput(
            f"{folder} is the folder of a run: its record already decides {' and '.join(clashing)}.\n"
            "Another choice would audit another network. Leave it out, or audit the weights file alone: "
            f"creditscope audit {folder / WEIGHTS} {' '.join(clashing)} ..."
        )


def stored_batches(path: Path) -> Data:
    """The tensors `inputs` and `labels` of a safetensors file."""
    from creditscope.training.weights import read_safetensors

    tensors = read_safetensors(path)
    if not {"inputs", "labels"} <= tensors.keys():
        names = ", ".join(sorted(tensors)[:8]) or "nothing"
        raise BadFile(f"{path} holds {names}.\nThere are no images with labels. {BATCHES_FORM}")
    inputs, labels = tensors["inputs"], tensors["labels"]
    if inputs.dim() < 2 or labels.dim() == 0 or len(inputs) != len(labels) or len(labels) == 0:
        raise InvalidInput(
            f"{path} has inputs of shape {tuple(inputs.shape)} and labels of shape {tuple(labels.shape)}.\n"
            f"Each image needs its label. {BATCHES_FORM}"
        )
    return Data(tuple(inputs.shape[1:]), None, lambda size: _cut(inputs, labels, size))


def _cut(inputs: Tensor, labels: Tensor, size: int) -> Iterator[Batch]:
    from torch import bool as boolean

    from creditscope.batch import Batch

    whole_numbers = not labels.is_floating_point() and labels.dtype is not boolean
    classes = labels.long() if whole_numbers else labels  # the audit refuses anything else
    return (Batch(inputs[at : at + size], classes[at : at + size]) for at in range(0, len(labels), size))


def limited_batches(batches: Iterator[Batch], size: int, limit: int | None) -> Iterator[Batch]:
    """The batches of the first `limit` images, the last one cut to fit."""
    if limit is None:
        return batches
    full, rest = divmod(limit, size)
    heads = (type(batch)(batch.inputs[:rest], batch.labels[:rest]) for batch in islice(batches, 1 if rest else 0))
    return (batch for part in (islice(batches, full), heads) for batch in part)


@dataclass(frozen=True, slots=True)
class NetworkForm:
    """The network that weights are loaded into: one of ours by name, or what a user's own function returns."""

    network: str | None
    model: str | None
    options: dict[str, Option]
    data: Data

    def __post_init__(self) -> None:
        if (self.network is None) == (self.model is None):
            both = "Neither --network nor --model was" if self.network is None else "Both --network and --model were"
            raise InvalidInput(
                f"{both} given.\nWeights alone do not define a network. Give --network NAME or --model MODULE:FUNCTION."
            )

    def filled(self, weights: Path) -> nn.Module:
        """A network with the weights of a file."""
        from creditscope.training.weights import load_weights, read_weights

        tensors = read_weights(weights)
        built = (
            model_from(self.model, self.options)
            if self.model is not None
            else network_from(str(self.network), self.options, self.data, tensors)
        )
        load_weights(built, tensors, str(weights))
        return built


def network_from(name: str, options: dict[str, Option], data: Data, weights: dict[str, Tensor]) -> nn.Module:
    """A registered network of the data's shape; its classes are the data's, else those of the weights."""
    from creditscope.networks.build import build
    from creditscope.training.weights import unwrapped

    if data.classes is not None:
        return build(name, data.shape, data.classes, 0, **options)
    two, three = (build(name, data.shape, classes, 0, **options).state_dict() for classes in (2, 3))
    weights = dict(unwrapped(weights, two))
    for key, tensor in two.items():
        axes = [axis for axis, (a, b) in enumerate(zip(tensor.shape, three[key].shape, strict=True)) if a != b]
        if axes and key in weights and weights[key].dim() == tensor.dim():
            return build(name, data.shape, weights[key].shape[axes[0]], 0, **options)
    return build(name, data.shape, 2, 0, **options)  # loading will refuse it and list the differences


def model_from(path: str, options: dict[str, Option]) -> nn.Module:
    """The model that a user's own function returns, called with the options."""
    from torch import nn

    from creditscope.plugins import named_object

    factory = named_object(path)
    if isinstance(factory, nn.Module):
        return copy.deepcopy(factory)  # the control is another network than the audited one
    if not callable(factory):
        raise InvalidInput(
            f"{path} is a {type(factory).__name__}, not a function.\nName a function or class that returns the network."
        )
    try:
        model = factory(**options)
    except Exception as error:
        raise InvalidInput(
            f"{path}{inspect.signature(factory) if inspect.isfunction(factory) else ''} failed when called with "
            f"{options or 'no options'}: {type(error).__name__}: {error}\n"
            "Without it there is no network for the weights. Pass its arguments with --option name=value."
        ) from error
    if not isinstance(model, nn.Module):
        raise InvalidInput(
            f"{path} returned a {type(model).__name__}, not a torch.nn.Module.\n"
            "Only a network can be audited. Return the network itself."
        )
    return model


def credit_of(path: str, network: nn.Module) -> Any:
    """What a user's own function returns as the credit of the audited network; `audit` checks the signals."""
    from creditscope.credit import CreditSource
    from creditscope.plugins import named_object

    make = named_object(path)
    form = "It must take the network and return a function Batch -> [a_0, ..., a_L], or a credit source."
    if not callable(make):
        raise InvalidInput(f"{path} is a {type(make).__name__}, not a function.\nThere is no credit to audit. {form}")
    try:
        credit = make(network)
    except CreditscopeError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"{path} failed when called with the network: {type(error).__name__}: {error}\n"
            f"There is no credit to audit. {form}"
        ) from error
    if not callable(credit) and not isinstance(credit, CreditSource):
        raise InvalidInput(f"{path} returned a {type(credit).__name__}.\nThere is no credit to audit. {form}")
    return credit
