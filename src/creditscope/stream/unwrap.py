"""Removes wrappers around a model, and refuses models that cannot be hooked or differentiated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from creditscope.errors import ModelMismatch


def bare(model: nn.Module) -> nn.Module:
    """The model inside torch.compile and DataParallel wrappers; it shares every weight with them."""
    if not isinstance(model, nn.Module):
        raise ModelMismatch(
            f"The model is a {type(model).__name__}, not a torch.nn.Module.\n"
            "It has no blocks to audit. Pass the network itself."
        )
    inner: Any = model
    while (wrapped := _inside(inner)) is not None:
        inner = wrapped
    _refuse(inner)
    return inner  # type: ignore[no-any-return]


def _inside(model: nn.Module) -> nn.Module | None:
    """The model inside a wrapper; None if the model is not a wrapper."""
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        inner: nn.Module = model.module
        return inner
    if isinstance(own := getattr(type(model), "wraps", None), str):  # a wrapper of ours names what it holds
        return model.get_submodule(own)
    children = dict(model.named_children())
    return children.get("_orig_mod") if len(children) == 1 else None  # the name that torch.compile keeps it under


def autocasts(model: nn.Module, run: Callable[[], object]) -> bool:
    """Whether the model switches autocast on by itself while it runs."""
    enabled: list[bool] = []
    kinds = {tensor.device.type for tensor in model.parameters()} | {"cpu"}

    def note(module: nn.Module, args: Any) -> None:
        enabled.append(any(torch.is_autocast_enabled(kind) for kind in kinds))

    with ExitStack() as stack:
        for module in model.modules():
            stack.callback(module.register_forward_pre_hook(note).remove)
        run()
    return any(enabled)


def _refuse(model: nn.Module) -> None:
    """Refuse models whose blocks cannot be hooked or whose numbers cannot be differentiated."""
    name, tensors = type(model).__name__, [*model.parameters(), *model.buffers()]
    if isinstance(model, torch.jit.ScriptModule):
        raise ModelMismatch(
            f"{name} is a TorchScript module: hooks do not reach its blocks.\n"
            "There would be no states to measure. Pass the Python module that it was scripted from."
        )
    if any(is_lazy(tensor) for tensor in tensors):
        raise ModelMismatch(
            f"{name} has lazy parameters that are not initialised.\n"
            "Their shapes are set by the first batch. Run the model once before the audit."
        )
    if any(tensor.is_meta for tensor in tensors):
        raise ModelMismatch(
            f"{name} has tensors on the meta device, which hold no numbers.\n"
            "There is nothing to measure. Load the weights first."
        )
    if any(tensor.is_inference() for tensor in tensors):
        raise ModelMismatch(
            f"{name} was created inside torch.inference_mode(): autograd cannot save its tensors.\n"
            "There would be no gradients. Create the model outside of inference mode, or load its state_dict() into "
            "one that was."
        )
    if any(type(module).__name__ == "FullyShardedDataParallel" for module in model.modules()):
        raise ModelMismatch(
            f"{name} is sharded over processes: no process holds all weights.\n"
            "Norms and gradients would be those of one shard. Gather the full state_dict() into a plain copy of the "
            "model and audit that."
        )


@contextmanager
def as_written(model: nn.Module) -> Iterator[None]:
    """Run compiled parts eagerly, so that hooks are called, and without an autocast of the caller."""
    compiled = any(
        getattr(module, "_compiled_call_impl", None) is not None or "_orig_mod" in module._modules
        for module in model.modules()
    )
    kinds = {tensor.device.type for tensor in model.parameters()} | {"cpu"}
    with ExitStack() as stack:
        if compiled:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        for kind in sorted(kinds):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield
