"""Ledger: reduces traces to the norms, directions and counts that diagnostics read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby, pairwise

import torch
from torch import Tensor

from creditscope.evidence.norms import (
    error_norms,
    non_finite,
    norm_rows,
    norm_table,
    norms_of,
    ordinary,
    position_norms,
    position_products,
)
from creditscope.evidence.records import NO_ERRORS, Directions, Evidence
from creditscope.stream.reading import Reading, ReadsStates
from creditscope.stream.trace import Trace

WAITING = 16  # groups whose directions are computed together
GROUP = 128  # images whose mean gradient makes one direction of D4


class Ledger:
    """Accumulates traces; keeps per-sample norms and sums, never a batch, and does not wait for a device."""

    def __init__(self, stream: ReadsStates) -> None:
        self._stream = stream  # its read rule is settled by the first batch
        self._norms, self._error = _Columns(), _Columns()  # of h_0..h_L and g_0..g_L; of the error
        self._same_shape: tuple[bool, ...] = ()
        self._steps = _Columns()  # of h_1 - h_0 .. h_L - h_{L-1}
        self._products, self._step_products = _Columns(), _Columns()  # ‖h‖·‖g‖ over positions, where there are any
        self._positions = _Columns()  # of all tokens of h_0..h_L, where one of them is read
        self._bad: dict[str, Tensor | int] = {}
        self._correct: Tensor | int = 0
        self._predictions: Tensor | int = 0
        self._groups = _Grouped(GROUP)
        self._whole = _Grouped(None)
        self._rows = 0  # of the latest batch: samples, or positions where all count
        self.images = 0
        self.batches = 0

    def add(self, trace: Trace) -> None:
        """Reduce one batch to what the diagnostics need."""
        self.add_states(trace.hiddens, trace.gradients)
        self.add_errors(trace.error)
        self.add_predictions(trace.logits, trace.labels)

    def add_states(self, states: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        """The states and gradients of one batch, in the model's own shapes."""
        reading = self._stream.reading
        hiddens, factors = zip(*map(reading.rows, states), strict=True)
        vectors = [reading.vectors(gradient) for gradient in gradients]
        rows = [*norm_rows(hiddens), *norm_rows(vectors)]
        self._rows = rows[0].shape[0]
        norms, depth = self._norms.add(rows), len(hiddens)
        fine = ordinary(norms)
        self._count("states", states, fine or self._mended(0, norms[:depth], hiddens))
        self._count("gradients", gradients, fine or self._mended(depth, norms[depth:], vectors))
        self._norms.scale(factors)
        if depth > 1:
            self._same_shape = tuple(before.shape == after.shape for before, after in pairwise(states))
        if reading.rule != "all" and any(state.dim() > 2 for state in states):
            self._products.add(position_products(states, gradients))
            if depth > 1:
                self._step_products.add(_step_products(states, gradients))
        elif depth > 1:
            self._steps.add(_step_norms(reading, states, rows[0]))
        if reading.leaves_tokens(states):
            self._positions.add(list(position_norms(states)))
        self._groups.add(vectors)
        if self._groups.count < 2:
            self._whole.add(vectors)
        self.images += states[0].shape[0]
        self.batches += 1

    def add_errors(self, error: Tensor) -> None:
        """∂ℓ/∂logits of the batch whose states came last."""
        self._error.add([error_norms(error, rows=self._rows)])

    def add_predictions(self, logits: Tensor, labels: Tensor) -> None:
        """The logits and labels of the batch whose states came last."""
        clean = logits.device.type == "cpu" and math.isfinite(logits.sum().item())
        self._bad["logits"] = self._bad.get("logits", 0) + (0 if clean else non_finite(logits))
        guess = logits.argmax(-1)
        if guess.shape == labels.shape and not labels.is_floating_point():
            correct = (guess == labels).sum()
            self._correct = self._correct + (int(correct) if correct.device.type == "cpu" else correct)
            self._predictions = self._predictions + ((labels >= 0).sum() if labels.dim() > 1 else guess.shape[0])

    def evidence(self) -> Evidence:
        """The norms and sums, on the CPU."""
        hidden, gradient = self._norms.table(2).chunk(2)
        errors = self._error.whole()
        return Evidence(
            hidden_norms=hidden,
            gradient_norms=gradient,
            error_norms=NO_ERRORS if errors is None else errors[0],
            step_norms=self._steps.whole(),
            position_norms=self._positions.whole(),
            state_products=self._products.whole(),
            step_products=self._step_products.whole(),
            same_shape=self._same_shape,
            directions=self._groups.directions() or self._whole.directions(),
            non_finite={where: int(count) for where, count in self._bad.items()},
            images=self.images,
            batches=self.batches,
        )

    @property
    def predictions(self) -> int:
        """Labels that were predicted or missed: one per sample, or per position that has one."""
        return int(self._predictions)

    @property
    def accuracy(self) -> float | None:
        """Share of correct predictions; None where labels are not classes."""
        return int(self._correct) / self.predictions if self.predictions else None

    @property
    def widths(self) -> tuple[int, ...]:
        """The size of every state's vector."""
        return self._groups.widths

    def _mended(self, first: int, norms: Tensor, vectors: Sequence[Tensor]) -> bool:
        """Whether all norms of some layers are finite, after float32 norms were made exact; False if not checked."""
        if norms.device.type != "cpu":
            return False
        if vectors[0].dtype == torch.float32 and not ordinary(norms):
            norms = self._norms.put(first, [norms_of(vector) for vector in vectors])
        return bool(norms.isfinite().all())

    def _count(self, where: str, tensors: Sequence[Tensor], finite: bool) -> None:
        # A flat state with a finite norm holds finite numbers only.
        clean = finite and all(tensor.dim() == 2 for tensor in tensors)
        bad = 0 if clean else torch.stack([non_finite(tensor) for tensor in tensors]).sum()
        self._bad[where] = self._bad.get(where, 0) + bad


class _Columns:
    """A table that grows to the right; its capacity grows by a quarter at a time, so that it is rarely copied."""

    def __init__(self) -> None:
        self._room: Tensor | None = None
        self._used = self._last = 0

    def add(self, rows: list[Tensor]) -> Tensor:
        """Append columns, given row by row, and return them."""
        wanted = self._used + rows[0].shape[0]
        if self._room is None or wanted > self._room.shape[1]:
            room = rows[0].new_empty(len(rows), max(1024, wanted + wanted // 4))
            if self._room is not None:
                room = room.to(self._room.dtype)
                room[:, : self._used] = self._room[:, : self._used]
            self._room = room
        self._used, self._last = wanted, self._used
        return torch.stack(rows, out=self._room[:, self._last : wanted])

    def put(self, first: int, rows: list[Tensor]) -> Tensor:
        """Replace some rows of the latest columns by float64 ones; the whole table is float64 from then on."""
        if self._room is None:
            return torch.stack(rows)
        self._room = self._room.double()
        return torch.stack(rows, out=self._room[first : first + len(rows), self._last : self._used])

    def scale(self, factors: Sequence[float]) -> None:
        """Multiply the first rows of the columns that came last by one factor each."""
        for row, factor in enumerate(factors):
            if self._room is not None and factor != 1:
                self._room[row, self._last : self._used] *= factor

    def whole(self) -> Tensor | None:
        """All columns in float64 on the CPU; None if there are none."""
        return None if self._room is None else self._room[:, : self._used].cpu().double()

    def table(self, rows: int) -> Tensor:
        """All columns in float64 on the CPU; `rows` empty rows if there are none."""
        whole = self.whole()
        return torch.zeros(rows, 0, dtype=torch.float64) if whole is None else whole


class _Grouped:
    """Unit directions of the mean gradient over `size` consecutive images (None: over each batch), summed.

    All layers are concatenated in one vector, and full groups wait until there are several, so that a few operations
    handle them all.
    """

    def __init__(self, size: int | None) -> None:
        self._size = size
        self.widths: tuple[int, ...] = ()
        self._waiting = torch.zeros(0)  # (WAITING, all features): a group's gradients summed, the last still growing
        self._full = self._filled = 0  # waiting groups; images in the next one
        self._sums = self._zeros = torch.zeros(0)
        self.count = 0

    def add(self, gradients: list[Tensor]) -> None:
        if not self.widths:
            self.widths = tuple(gradient.shape[-1] for gradient in gradients)
            self._sums = gradients[0].new_zeros(sum(self.widths), dtype=torch.float64)
            self._zeros = self._sums[: len(gradients)].long()
            self._waiting = self._sums.new_empty(WAITING, len(self._sums))
        start, images = 0, gradients[0].shape[0]
        while start < images:
            stop = images if self._size is None else min(images, start + self._size - self._filled)
            part = gradients if stop - start == images else [gradient[start:stop] for gradient in gradients]
            sums = [_sum(gradient) for gradient in part]
            if self._filled:
                self._waiting[self._full].add_(torch.cat(sums))
            else:
                torch.cat(sums, out=self._waiting[self._full])
            self._filled += stop - start
            if self._size is None or self._filled == self._size:
                self._close()
            start = stop

    def _close(self) -> None:
        self._full, self._filled, self.count = self._full + 1, 0, self.count + 1
        if self._full == WAITING:
            self._sums, self._zeros = self._summed()
            self._full = 0

    def _summed(self) -> tuple[Tensor, Tensor]:
        """Σ of the unit directions so far, and per layer how many groups have none."""
        waiting = self._waiting[: self._full]
        units, zeros, start = [], [], 0
        for width, layers in ((width, len(list(run))) for width, run in groupby(self.widths)):
            totals = waiting[:, start : start + layers * width].reshape(-1, layers, width)
            norms = torch.linalg.vector_norm(totals, dim=2, keepdim=True)
            gone = norms == 0
            units.append((totals / (norms + gone)).sum(0).flatten())
            zeros.append(gone.sum((0, 2)))
            start += layers * width
        return self._sums + torch.cat(units), self._zeros + torch.cat(zeros)

    def directions(self) -> Directions | None:
        if self.count < 2:
            return None
        sums, zeros = self._summed()
        return Directions(
            tuple(torch.split(sums.cpu(), list(self.widths))), self.count, tuple(zeros.tolist()), self._size
        )


def _sum(vectors: Tensor) -> Tensor:
    rows = vectors if vectors.dim() == 2 else vectors.flatten(0, -2)
    return (rows.float() if rows.dtype in (torch.float16, torch.bfloat16) else rows).sum(0)


def _step_norms(reading: Reading, states: Sequence[Tensor], like: Tensor) -> list[Tensor]:
    """‖h_{l+1} - h_l‖ of each row of states that are flat or count at every position; NaN where the shape changes."""
    steps = [after - before if before.shape == after.shape else None for before, after in pairwise(states)]
    known = [reading.vectors(step) for step in steps if step is not None]
    lengths = iter(norm_table(known) if known else ())
    return [torch.full_like(like, torch.nan, dtype=torch.float64) if step is None else next(lengths) for step in steps]


def _step_products(states: Sequence[Tensor], gradients: Sequence[Tensor]) -> list[Tensor]:
    """Σ over positions of ‖h_{l+1,p} - h_{l,p}‖·‖g_{l+1,p}‖; NaN where a block changes the shape of the stream."""
    unknown = states[0].new_full((len(states[0]),), torch.nan, dtype=torch.float64)
    return [
        position_products([after - before], [gradient])[0] if before.shape == after.shape else unknown
        for (before, after), gradient in zip(pairwise(states), gradients[1:], strict=True)
    ]
