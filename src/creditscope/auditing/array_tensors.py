"""Arrays of any library as tensors on the CPU."""

from __future__ import annotations

from typing import Any

import numpy
import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from creditscope.errors import InvalidInput


def real_tensor(array: Any, where: str) -> Tensor:
    """An array of real numbers with at least a sample axis and one more, as a tensor."""
    tensor = as_tensor(array, where)
    if not tensor.is_floating_point() or tensor.dim() < 2:
        raise InvalidInput(
            f"{where} has shape {tuple(tensor.shape)} and type {str(tensor.dtype).removeprefix('torch.')}.\n"
            "Norms are taken of real vectors, one per sample. Give floating-point numbers, the samples first."
        )
    return tensor


def as_tensor(array: Any, where: str) -> Tensor:
    """Anything with __dlpack__ or __array__ as a tensor on the CPU, without a copy where possible."""
    if isinstance(array, Tensor):
        plain = array.layout is torch.strided and not array.is_meta and not array.is_nested
        if plain:
            return array.detach().cpu()
        raise InvalidInput(
            f"{where} is a sparse, nested or meta tensor.\nIts numbers cannot be read. Pass a dense one."
        )
    if isinstance(array, numpy.ma.MaskedArray):
        raise InvalidInput(f"{where} is a masked array.\nMasked numbers would count as data. Pass a plain one.")
    for convert in (_by_dlpack, _by_numpy):
        try:
            return convert(array)
        except (TypeError, ValueError, RuntimeError, BufferError, AttributeError) as error:
            reason = str(error).strip().partition("\n")[0]
    raise InvalidInput(
        f"{where} is a {type(array).__name__} that cannot be read as an array of numbers: {reason:.200}\n"
        "Pass a NumPy, JAX, TensorFlow, MLX or PyTorch array, or anything else with __array__ or __dlpack__."
    )


def _by_dlpack(array: Any) -> Tensor:
    if isinstance(array, numpy.ndarray):
        raise TypeError("NumPy's own arrays may be read-only, which DLPack refuses")
    return from_dlpack(array).cpu()


def _by_numpy(array: Any) -> Tensor:
    values = numpy.asarray(array)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"its numbers are of type {values.dtype}")
    native = numpy.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    return torch.from_numpy(native if native.flags.writeable else native.copy())
