"""Weights from a file into a network, without running code and without silent gaps."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from creditscope.errors import BadFile, CreditscopeError
from creditscope.reading import first_bytes

WRAPPERS = ("module.", "_orig_mod.")  # DataParallel and torch.compile put these before every name
PARTS = ("network", "feedback", "auxiliary")  # of a checkpoint's file
NETWORK = "network."
SHOWN = 12  # names of a long list that are printed
CONVERT = (
    "If you trust its source, open it there and save the tensors alone:\n"
    '  safetensors.torch.save_file(model.state_dict(), "weights.safetensors")'
)


class WeightsMismatch(CreditscopeError):
    """Weights that belong to another network than the one they are loaded into."""


def read_weights(path: Path | str) -> dict[str, Tensor]:
    """The tensors of a safetensors file, or of a torch file of tensors; the format is detected from the content."""
    path = Path(path)
    start = first_bytes(path)
    if start[8:9] == b"{":
        return read_safetensors(path)
    if start[:2] == b"PK" or start[:1] == b"\x80":
        return _state_dict(_read_torch(path), path)
    raise BadFile(f"{path} is neither a safetensors nor a torch file.\nThere are no weights to audit. {CONVERT}")


def read_safetensors(path: Path | str) -> dict[str, Tensor]:
    """Every tensor of a safetensors file."""
    first_bytes(Path(path))
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise BadFile(
            f"{path} is not a complete safetensors file: {error}.\n"
            "Its tensors cannot be trusted. Copy or write it again."
        ) from error


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], source: str) -> None:
    """Fill a model; a name or shape that does not fit is an error that lists them all."""
    own = model.state_dict()
    given = unwrapped(weights, own)
    problems = {
        "Missing in the file": sorted(own.keys() - given.keys()),
        "Unexpected in the file": sorted(given.keys() - own.keys()),
        "Of another shape": [
            f"{name}: {_shape(given[name])} in the file, {_shape(own[name])} in the network"
            for name in own
            if name in given and given[name].shape != own[name].shape
        ],
    }
    if any(problems.values()):
        raise WeightsMismatch(
            f"The weights of {source} do not fit {type(model).__name__}.\n"
            + "".join(_listed(title, names) for title, names in problems.items() if names)
            + "Part of the network would keep its random weights, and the audit would be of another network.\n"
            "Give the network and the options with which it was trained."
        )
    model.load_state_dict(dict(given))


def _read_torch(path: Path) -> Any:
    try:
        if zipfile.is_zipfile(path):
            _check_not_packed(path)
        with warnings.catch_warnings(action="ignore"):  # torch warns of pickles that it then refuses
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise BadFile(
            f"{path} is a pickle that torch does not open as tensors alone.\n"
            f"A pickle can run any code when it is loaded, so it was not loaded. {CONVERT}"
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        first = str(error).strip().partition("\n")[0]
        raise BadFile(
            f"{path} is not a complete torch file: {first}\nIts tensors cannot be trusted. Copy or write it again."
        ) from error


def _check_not_packed(path: Path) -> None:
    """Refuse a compressed archive, which torch never writes and which can unpack to anything."""
    with zipfile.ZipFile(path) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise BadFile(
                f"{path} is a compressed archive, which torch does not write.\n"
                "A small one can unpack to more than the memory, so it was not read. Save the weights again."
            )


def _state_dict(content: Any, path: Path) -> dict[str, Tensor]:
    """The tensors of a torch file: the mapping itself, or the only mapping of tensors inside it."""
    if _is_state_dict(content):
        return dict(content)
    inside = (
        {key: value for key, value in content.items() if _is_state_dict(value)} if isinstance(content, dict) else {}
    )
    if len(inside) != 1:
        which = f"several state dicts ({', '.join(map(str, inside))})" if inside else "no state dict"
        raise BadFile(f"{path} holds {which}.\nIt is not clear which tensors are the network's. {CONVERT}")
    return dict(next(iter(inside.values())))


def _is_state_dict(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(isinstance(key, str) and isinstance(item, Tensor) for key, item in value.items())
    )


def unwrapped(weights: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The weights without the prefix of a wrapper, if every name has it and the network's own have not.

    Of a checkpoint of ours, which holds feedback too, the network's.
    """
    if {name.partition(".")[0] for name in weights} <= set(PARTS) and not any(n.startswith(NETWORK) for n in own):
        return {name.removeprefix(NETWORK): tensor for name, tensor in weights.items() if name.startswith(NETWORK)}
    for prefix in WRAPPERS:
        if weights and all(name.startswith(prefix) for name in weights) and not any(n.startswith(prefix) for n in own):
            return unwrapped({name.removeprefix(prefix): tensor for name, tensor in weights.items()}, own)
    return weights


def _listed(title: str, names: list[str]) -> str:
    lines = names[:SHOWN] + [f"and {len(names) - SHOWN} more"] * (len(names) > SHOWN)
    return f"  {title} ({len(names)}):\n" + "".join(f"    {name}\n" for name in lines)


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "one number"
