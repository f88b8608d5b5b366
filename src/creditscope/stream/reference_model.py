"""Reference models: the true gradient for a model whose layers define their own backward."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.credit import CreditSource, Local
from creditscope.errors import ModelMismatch
from creditscope.provenance import Guard, GuardStatus
from creditscope.stream.find import find_stream
from creditscope.stream.reading import Read
from creditscope.stream.states import Pass, Shifts, Stream
from creditscope.stream.trace import LossFunction, capture, per_sample
from creditscope.stream.unwrap import bare

# Layers whose forward pass is known and which hold a weight and a bias; a subclass may bring its own backward.
KINDS: tuple[type[nn.Module], ...] = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
    nn.Embedding,
    nn.LayerNorm,
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.BatchNorm3d,
)
BACKWARD = ("_backward_hooks", "_backward_pre_hooks")
CLOSE = {"rtol": 1e-3, "atol": 1e-5, "equal_nan": True}


def plain_twin(model: nn.Module) -> nn.Module:
    """A reference model: the same network with torch's own layers in place of those that define their own backward.

    A torch.nn layer with another forward becomes that torch.nn layer; backward hooks are left out. All weights are
    shared, so that the reference model follows the training. It is in evaluation mode.

    >>> import creditscope, torch
    >>> class OwnBackward(torch.nn.Linear):
    ...     def forward(self, x):  # a torch.autograd.Function in a real one
    ...         return super().forward(x)
    >>> creditscope.plain_twin(torch.nn.Sequential(OwnBackward(2, 3)))
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
    )
    """
    changed: list[str] = []
    reference = _plain(bare(model), "", {}, changed)
    if not changed:
        raise ModelMismatch(
            f"{type(model).__name__} has no layer that is a torch.nn layer with a forward or backward of its own.\n"
            "No layer can be replaced by a plain one. Write the plain network, load the weights into it, and pass it "
            "as reference=."
        )
    return reference


def _plain(module: nn.Module, name: str, known: dict[int, nn.Module], changed: list[str]) -> nn.Module:
    if id(module) in known:
        return known[id(module)]
    kind = _kind(module)
    plain: nn.Module = (kind or type(module)).__new__(kind or type(module))
    known[id(module)] = plain
    plain.__dict__.update(module.__dict__)
    own = {"weight", "bias"} if kind is not None else set(module._parameters)
    plain.__dict__["_parameters"] = {key: value for key, value in module._parameters.items() if key in own}
    plain.__dict__["_buffers"] = dict(module._buffers)
    plain.__dict__["_modules"] = {
        key: None if child is None else _plain(child, f"{name}.{key}", known, changed)
        for key, child in module._modules.items()
    }
    hooked = any(module.__dict__.get(hooks) for hooks in BACKWARD)
    plain.__dict__.update({hooks: OrderedDict() for hooks in BACKWARD}, _is_full_backward_hook=None, training=False)
    if kind is not None:
        plain.__dict__.pop("forward", None)
    if kind is not None or hooked:
        changed.append(name)
    return plain


def _kind(module: nn.Module) -> type[nn.Module] | None:
    """The torch.nn layer that a module derives from with another forward; None if there is none."""
    for kind in KINDS:
        if isinstance(module, kind):
            other = type(module).forward is not kind.forward or "forward" in module.__dict__
            return kind if other else None
    return None


class ModelWithReference(nn.Module):
    """A model and its reference model in one module: a change of precision or mode reaches both."""

    def __init__(self, reference: nn.Module, model: nn.Module) -> None:
        super().__init__()
        self.reference, self.model = reference, model

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The output of the reference model."""
        return self.reference(*args, **kwargs)


class ReferencedStream(Stream):
    """States and gradients of the reference model, after a check that the model computes the same states."""

    def __init__(self, reference: Stream, own: Stream) -> None:
        super().__init__(ModelWithReference(reference.model, own.model), reference.rule)
        self._reference, self.own = reference, own

    @property
    def subject(self) -> nn.Module:
        """The user's own model."""
        return self.own.model

    @property
    def blocks(self) -> list[nn.Module]:
        """The blocks of the reference model."""
        return self._reference.blocks

    def checks(self) -> dict[str, Guard]:
        """The guards of the reference model, and that it agrees with the model."""
        passed = Guard(GuardStatus.PASSED, "its states and logits are the model's")
        return {**self._reference.checks(), "reference": passed}

    def run(self, inputs: Any, shifts: Shifts | None = None) -> Pass:
        """As the reference model."""
        return self._reference.run(inputs, shifts)

    def certain(self, layer: int) -> bool:
        """As the reference model."""
        return self._reference.certain(layer)

    def onward(self, layer: int, state: Tensor) -> Tensor | None:
        """As the reference model."""
        return self._reference.onward(layer, state)

    def oriented(self, tensor: Tensor, layer: int) -> Tensor:
        """As the reference model."""
        return self._reference.oriented(tensor, layer)

    def verify(self, inputs: Any, logits: Tensor) -> None:
        """Refuse a reference model whose states or logits are not the model's."""
        with torch.no_grad():
            self._reference.verify(inputs, logits)
            plain, own = self._reference.run(inputs), self.own.run(inputs)
        if len(own.hiddens) != len(plain.hiddens):
            raise ModelMismatch(
                f"The model has {len(own.hiddens)} states, its reference {len(plain.hiddens)}.\n"
                "Credit would be compared with the gradient of another layer. Name the blocks of both with blocks=."
            )
        pairs = {f"h_{layer}": pair for layer, pair in enumerate(zip(own.hiddens, plain.hiddens, strict=True))}
        for name, (mine, other) in {**pairs, "logits": (own.logits, plain.logits)}.items():
            if mine.shape != other.shape or not torch.allclose(mine, other, **CLOSE):  # type: ignore[arg-type]
                raise ModelMismatch(
                    f"The {name} of the model and of its reference differ.\n"
                    "The gradient would be that of another network. Load the model's weights into the reference: "
                    "reference.load_state_dict(model.state_dict(), strict=False), or use creditscope.plain_twin(model)."
                )


@dataclass(frozen=True, eq=False)
class OwnBackward(CreditSource):
    """The signals that the model's own backward pass delivers at its states."""

    stream: Stream
    loss_fn: LossFunction
    local: Local = True

    def signals(self, batch: Batch) -> tuple[Tensor, ...]:
        """∂Σℓ/∂h_l as the model's layers compute it."""
        forward = inspect.signature(self.stream.model.forward).parameters
        if not {"targets", "loss_function"} <= set(forward):
            return capture(self.stream, batch, self.loss_fn).gradients
        name = next(iter(forward))  # a model that broadcasts its own error takes the labels in its forward pass
        inputs = {name: batch.inputs, "targets": batch.labels, "loss_function": self._total}
        with _containers_training(self.stream.model):
            return capture(self.stream, Batch(inputs, batch.labels), self.loss_fn).gradients

    def _total(self, logits: Tensor, labels: Tensor) -> Tensor:
        return per_sample(self.loss_fn, logits, labels).sum()


@contextmanager
def _containers_training(model: nn.Module) -> Iterator[None]:
    """Modules with children are in training mode, layers such as dropout and batch norm are not.

    Attributes that the forward pass sets are removed afterwards.
    """
    before = [(module, dict(module.__dict__)) for module in model.modules()]
    try:
        for module, _ in before:
            module.training = bool(module._modules)
        yield
    finally:
        for module, attributes in before:
            module.__dict__.clear()
            module.__dict__.update(attributes)


def referenced(model: nn.Module, reference: nn.Module | None, blocks: str | Sequence[str] | None, read: Read) -> Stream:
    """The stream of a model, through its reference model if there is one.

    Blocks that the reference model does not have by name are searched in it.
    """
    own = find_stream(model, blocks, read)
    if reference is None:
        return own
    plain = bare(reference)
    names = [blocks] if isinstance(blocks, str) else list(blocks or ())
    known = dict(plain.named_modules())
    shared = blocks if all(name in known for name in names) else None
    return ReferencedStream(find_stream(plain, shared, read), own)


def own_credit(stream: Stream, credit: Any, local: Local | None, loss_fn: LossFunction) -> tuple[Any, Local | None]:
    """The given credit; without one, and with a reference model, the signals of the model's own backward pass."""
    if credit is None and isinstance(stream, ReferencedStream):
        return OwnBackward(stream.own, loss_fn, True if local is None else local), None
    return credit, local
