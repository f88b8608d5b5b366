"""A device without hardware: tensors on "pretended" keep their numbers on the CPU, and behave as those of a GPU do.

An operator that mixes them with tensors on the CPU fails, and every wait for the device is counted. Importing this
module registers the device for the process. It must be imported when the tests are collected, that is at the top of a
test file: autograd starts its threads for the devices that it knows at the first backward pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

try:
    from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend
except ImportError:
    pytest.skip("this PyTorch registers no device from Python", allow_module_level=True)

aten = torch.ops.aten
NAME = "pretended"


class _Module(_DummyBackendModule):  # type: ignore[misc]
    """The module torch.pretended; what is drawn on the device comes from the CPU's own random state."""

    def get_rng_state(self, device: Any = None) -> Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: Tensor, device: Any = None) -> None:
        torch.set_rng_state(state)


_setup_privateuseone_for_python_backend(NAME, _Module())
DEVICE = torch.device(NAME, 0)
# Their results, or the shapes of their results, are needed by the host
WAITS = {"_local_scalar_dense", "is_nonzero", "equal", "allclose", "nonzero", "masked_select", "_unique2", "unique_dim"}
COPIES = {"copy_", "_copy_from", "_to_copy"}
_synchronisations: list[Counter[str]] = []


@contextmanager
def synchronisations() -> Iterator[Counter[str]]:
    """Counts the waits for the device within the block, by operator.

    >>> with synchronisations() as waits:
    ...     bool(torch.ones(2, device=DEVICE).sum() > 1)
    True
    >>> waits.total()
    1
    """
    counter: Counter[str] = Counter()
    _synchronisations.append(counter)
    try:
        yield counter
    finally:
        _synchronisations.remove(counter)


class PretendedTensor(Tensor):
    """A tensor on the pretended device, around a plain one on the CPU that holds its numbers."""

    _plain: Tensor

    @staticmethod
    def __new__(cls, plain: Tensor) -> PretendedTensor:
        made: PretendedTensor = Tensor._make_wrapper_subclass(
            cls, plain.shape, strides=plain.stride(), storage_offset=plain.storage_offset(), dtype=plain.dtype,
            device=DEVICE,
        )  # fmt: skip
        made._plain = plain
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})

    def __repr__(self) -> str:  # type: ignore[override]
        return f"pretended {self._plain!r}"

    def tolist(self) -> Any:
        """As PyTorch's own, which takes no subclass."""
        return self.cpu().tolist()

    @property
    def data(self) -> Tensor:
        """The numbers without their graph; to assign replaces them."""
        return self.detach()

    @data.setter
    def data(self, value: PretendedTensor) -> None:
        Tensor.data.__set__(self, value)  # type: ignore[attr-defined]
        self._plain = value._plain


def run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator on the plain tensors; refuse operands on two devices, count what the host waits for."""
    name = func._schema.name.split("::")[-1]
    if name not in COPIES:
        _refuse_mixtures(func, args, kwargs)
    if name == "_to_copy" and kwargs.get("device", DEVICE) != DEVICE:
        _wait("copy to the CPU")
        return func(*_plainly(args), **_plainly(kwargs))
    if name in ("copy_", "_copy_from"):
        return _copied(name, *args)
    if name in WAITS or (name in ("index", "index_put", "index_put_") and _by_mask(args[1])):
        _wait(name)
    _refuse_generators(func, args, kwargs)
    result = func(*_plainly(args), **_plainly(kwargs))
    return _returned(func, args, kwargs, result)


def _copied(name: str, first: Tensor, second: Tensor, *rest: Any) -> Tensor:
    into, source = (first, second) if name == "copy_" else (second, first)
    if not isinstance(into, PretendedTensor):
        _wait("copy to the CPU")
    _plainly(into).copy_(_plainly(source))
    return into


def _wait(what: str) -> None:
    for counter in _synchronisations:
        counter[what] += 1


def _by_mask(indices: Any) -> bool:
    return any(isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in indices)


def _plainly(tree: Any) -> Any:
    def plain(leaf: Any) -> Any:
        if isinstance(leaf, torch.device):
            return torch.device("cpu")
        return leaf._plain if isinstance(leaf, PretendedTensor) else leaf

    return tree_map(plain, tree)


def _refuse_mixtures(func: Any, args: Any, kwargs: Any) -> None:
    """As on a GPU, a tensor on the CPU is welcome only if it is a single number."""
    for leaf in tree_leaves((args, kwargs)):
        if isinstance(leaf, Tensor) and not isinstance(leaf, PretendedTensor) and leaf.dim():
            raise RuntimeError(f"Expected all tensors of {func} to be on the same device, but found {NAME} and cpu")


def _refuse_generators(func: Any, args: Any, kwargs: Any) -> None:
    for leaf in tree_leaves((args, kwargs)):
        if isinstance(leaf, torch.Generator):
            raise RuntimeError(
                f"Expected a {NAME!r} device type for generator of {func} but found {leaf.device.type!r}"
            )


def _returned(func: Any, args: Any, kwargs: Any, result: Any) -> Any:
    """The result on the device; where the operator writes into an argument, that argument itself."""
    written = [
        args[place] if place < len(args) else kwargs.get(argument.name)
        for place, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    by_plain = {id(leaf._plain): leaf for leaf in tree_leaves(written) if isinstance(leaf, PretendedTensor)}

    def wrap(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        return by_plain[id(leaf)] if id(leaf) in by_plain else PretendedTensor(leaf)

    return tree_map(wrap, result)


def _factories() -> Iterator[tuple[str, Any]]:
    """Every operator that makes a tensor on a device from no tensor."""
    for full in torch._C._dispatch_get_all_op_names():
        space, _, name = full.partition("::")
        if space != "aten" or torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd"):
            continue
        packet, _, overload = name.partition(".")
        operator = getattr(getattr(aten, packet, None), overload or "default", None)
        if operator is None:
            continue
        types = {argument.name: str(argument.type) for argument in operator._schema.arguments}
        returns = [str(value.type) for value in operator._schema.returns]
        if "device" in types and returns == ["Tensor"] and not any("Tensor" in kind for kind in types.values()):
            yield name, operator


def _making(operator: Any) -> Callable[..., Tensor]:
    def make(*args: Any, **kwargs: Any) -> Tensor:
        _refuse_generators(operator, args, kwargs)
        return PretendedTensor(operator(*args, **{**kwargs, "device": torch.device("cpu"), "pin_memory": None}))

    return make


def _register() -> torch.library.Library:
    library = torch.library.Library("aten", "IMPL")
    for name, operator in _factories():
        library.impl(name, _making(operator), "PrivateUse1")
    library.impl("_copy_from", lambda *args: _copied("_copy_from", *args), "PrivateUse1")
    return library


_LIBRARY = _register()  # the operators are there as long as it is
