"""Linear read-outs of every state: what a linear reader gains from each block, without retraining anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from creditscope.arguments import calling
from creditscope.batch import Batch, first_images
from creditscope.errors import InvalidInput
from creditscope.evidence.records import ReadoutProfile, Rival
from creditscope.progress import steps
from creditscope.stream.states import Stream
from creditscope.stream.trace import Trace

TAKEN = "a network that takes the batches of training="
MOST_IMAGES = 10_000  # training images behind a read-out
HELD_OUT = 5  # every fifth of them chooses the penalty
PENALTIES = tuple(10.0**power for power in range(-6, 5))  # of the mean eigenvalue of XᵀX


@dataclass(frozen=True, slots=True)
class Readout:
    """A linear classifier of standardised features: argmax of ((x - mean)/scale) W + b."""

    mean: Tensor  # (d,)
    scale: Tensor  # (d,)
    weight: Tensor  # (d, classes)
    bias: Tensor  # (classes,)
    penalty: float

    def answers(self, features: Tensor) -> Tensor:
        """The class of every row."""
        return (((features.double() - self.mean) / self.scale) @ self.weight + self.bias).argmax(1)


def fit_readout(features: Tensor, labels: Tensor, classes: int) -> Readout:
    """Ridge regression onto one-hot labels in closed form, in float64.

    W = (XᵀX + λI)⁻¹ XᵀY with X standardised per feature and Y centred. λ is chosen among `PENALTIES` times the mean
    eigenvalue of XᵀX: the one with most right answers on every fifth image, the larger of two that tie. The read-out
    is then fitted on all images.
    """
    held = torch.arange(len(labels), device=labels.device) % HELD_OUT == HELD_OUT - 1
    trial = [
        (_right(readout, features[held], labels[held]), readout.penalty)
        for readout in _solutions(features[~held], labels[~held], classes, PENALTIES)
    ]
    best = max(trial)[1]
    (readout,) = _solutions(features, labels, classes, (best,))
    return readout


def _right(readout: Readout, features: Tensor, labels: Tensor) -> int:
    return int((readout.answers(features) == labels).sum())


def _solutions(features: Tensor, labels: Tensor, classes: int, penalties: Sequence[float]) -> Iterator[Readout]:
    """The read-out for each penalty, from one eigendecomposition of the smaller of XᵀX and XXᵀ."""
    wide = features.double()
    mean = wide.mean(0)
    scale = wide.std(0, correction=0)
    scale = torch.where(scale > 0, scale, 1.0)
    x = (wide - mean) / scale
    y = torch.nn.functional.one_hot(labels, classes).double()
    bias = y.mean(0)
    y = y - bias
    dual = x.shape[0] < x.shape[1]
    values, vectors = torch.linalg.eigh(x @ x.T if dual else x.T @ x)
    values = values.clamp_min(0)
    inner = vectors.T @ (y if dual else x.T @ y)
    size = values.sum() / x.shape[1]
    for penalty in penalties:
        solved = vectors @ (inner / (values + penalty * size).clamp_min(1e-300)[:, None])
        yield Readout(mean, scale, x.T @ solved if dual else solved, bias, penalty)


def _check_classes(labels: Tensor, classes: int) -> None:
    if int(labels.min()) < 0 or int(labels.max()) >= classes:
        raise InvalidInput(
            f"The labels of training go from {int(labels.min())} to {int(labels.max())}, but the model has {classes} "
            "logits.\nThey name classes that it does not have. Pass the images that it was trained on."
        )


class NotFinite(Exception):
    """States of the training images that hold NaN or infinity: nothing can be fitted to them."""


class ReadoutLedger:
    """Read-outs of every state, fitted once on training images and counted up over the test batches.

    initial   the weights before training, by name: the deepest state is then also read with the blocks set back
    """

    def __init__(
        self, stream: Stream, training: Sequence[Batch], classes: int, initial: Mapping[str, Tensor] | None
    ) -> None:
        self._stream = stream
        features, labels = _features(stream, training)
        _check_classes(labels, classes)
        self._readouts = [
            fit_readout(column, labels, classes) for column in steps("fitting linear read-outs", features)
        ]
        self._training_images, self._numbers = len(labels), tuple(column.shape[1] for column in features)
        self._start = None if initial is None else _Start(stream, training, initial, classes)
        self._right: Tensor | int = 0  # per state
        self._joint: Tensor | int = 0  # per rival: right at the deepest state only, at the rival only, at the rival
        self._images = 0

    def add(self, batch: Batch, trace: Trace) -> None:
        """Which images each read-out gets right."""
        with torch.no_grad():
            right = torch.stack(
                [
                    readout.answers(_flat(self._stream, state)) == batch.labels
                    for readout, state in zip(self._readouts, trace.hiddens, strict=True)
                ]
            )
            rivals = right[:1] if self._start is None else torch.stack([right[0], self._start.right(batch)])
        deepest = right[-1]
        joint = torch.stack([(deepest & ~rivals).sum(1), (~deepest & rivals).sum(1), rivals.sum(1)])
        self._right = self._right + right.sum(1)
        self._joint = self._joint + joint
        self._images += len(batch.labels)

    def profile(self) -> ReadoutProfile:
        """The counts as shares."""
        right, joint = (torch.as_tensor(counts).tolist() for counts in (self._right, self._joint))
        names = ("at the embedding", "with the blocks set back to their start")
        rivals = zip(names, *joint, strict=False)
        return ReadoutProfile(
            accuracies=tuple(count / self._images for count in right),
            rivals=tuple(Rival(name, own / self._images, gained, lost) for name, gained, lost, own in rivals),
            images=self._images,
            training_images=self._training_images,
            numbers=self._numbers,
        )


class _Start:
    """The same network with its blocks at their initial values; batch norms there see the training images anew."""

    def __init__(self, stream: Stream, training: Sequence[Batch], initial: Mapping[str, Tensor], classes: int) -> None:
        self._stream, self._values = stream, _block_values(stream, initial)
        self._statistics: tuple[tuple[Tensor, Tensor], ...] = ()
        with self._set_back():
            self._statistics = _renewed_statistics(stream, training)
        with self._set_back():
            features, labels = _features(stream, training)
        self._readout = fit_readout(features[-1], labels, classes)

    def right(self, batch: Batch) -> Tensor:
        """Which images the read-out of its deepest state gets right."""
        with self._set_back():
            state = self._stream.run(batch.inputs).hiddens[-1]
        return self._readout.answers(_flat(self._stream, state)) == batch.labels

    @contextmanager
    def _set_back(self) -> Iterator[None]:
        """The blocks at their start for the duration; their own values come back whatever happens."""
        own = [(tensor, tensor.data) for tensor, _ in (*self._values, *self._statistics)]
        try:
            for tensor, value in (*self._values, *self._statistics):
                tensor.data = value
            yield
        finally:
            for tensor, value in own:
                tensor.data = value


def _block_values(stream: Stream, initial: Mapping[str, Tensor]) -> tuple[tuple[Tensor, Tensor], ...]:
    """The parameters of the blocks beside their initial values."""
    inside = {id(parameter) for block in stream.blocks for parameter in block.parameters()}
    named = stream.subject.named_parameters()
    return tuple((p, initial[name].to(p.device, p.dtype)) for name, p in named if id(p) in inside)


def _renewed_statistics(stream: Stream, training: Sequence[Batch]) -> tuple[tuple[Tensor, Tensor], ...]:
    """Running means and variances of the blocks' batch norms over the training images, as the set-back blocks give."""
    modules = (module for block in stream.blocks for module in block.modules())
    norms = [module for module in modules if isinstance(module, _BatchNorm) and module.track_running_stats]
    if not norms:
        return ()
    kept = [(norm, norm.momentum, {name: buffer.clone() for name, buffer in norm.named_buffers()}) for norm in norms]
    try:
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum, norm.training = None, True  # cumulative means
        with torch.no_grad():
            for batch in training:
                stream.run(batch.inputs)
        buffers = (buffer for norm in norms for buffer in norm.buffers() if buffer.is_floating_point())
        return tuple((buffer, buffer.detach().clone()) for buffer in buffers)
    finally:
        for norm, momentum, before in kept:
            norm.momentum, norm.training = momentum, False
            for name, buffer in norm.named_buffers():
                buffer.copy_(before[name])


def training_images(batches: Iterable[Batch]) -> list[Batch]:
    """The first training images that read-outs are fitted on, as batches."""
    kept: list[Batch] = []
    room = MOST_IMAGES
    for batch in batches:
        if room <= 0:
            break
        kept.append(first_images(batch, min(room, len(batch.labels))))
        room -= len(batch.labels)
    return kept


def _features(stream: Stream, batches: Sequence[Batch]) -> tuple[list[Tensor], Tensor]:
    """The vectors of every state over the training images, and their labels."""
    columns: list[list[Tensor]] = []
    for batch in batches:
        with torch.no_grad(), calling("The forward pass on the training images", TAKEN):
            states = stream.run(batch.inputs).hiddens
        columns = columns or [[] for _ in states]
        for column, state in zip(columns, states, strict=True):
            column.append(_flat(stream, state))
    features = [torch.cat(column) for column in columns]
    if not all(bool(column.isfinite().all()) for column in features):
        raise NotFinite
    return features, torch.cat([batch.labels for batch in batches])


def _flat(stream: Stream, state: Tensor) -> Tensor:
    """One row of features per image."""
    return stream.vectors(state).flatten(1)
