"""What is left of the traces when the batches are gone: all that a diagnostic may read."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from creditscope.adapters import Stream
from creditscope.credit_evidence import CreditEvidence, LabelLeak, Layers
from creditscope.errors import InvalidInput
from creditscope.trace import Trace
from creditscope.verdict import NO_CREDIT

SAFE = (1e-15, 1e15)  # norms whose float32 squares are exact enough
GROUP = 128  # images whose mean gradient makes one direction of D4; also the batch size of the published floor


@dataclass(frozen=True, slots=True)
class Directions:
    """Sums of unit vectors, one per group of images, at every layer.

    For K unit vectors u_k the mean pairwise cosine is (‖Σ u_k‖² - K)/(K(K - 1)): the vectors need not be kept.
    """

    sums: tuple[Tensor, ...]  # per layer (d,)
    groups: int
    vanished: tuple[int, ...]  # per layer: groups whose mean gradient is exactly zero
    size: int | None  # images in a group; None: the batches themselves


@dataclass(frozen=True, slots=True)
class Evidence:
    """Per-sample norms over all images, D4's directions, counts, accuracies and probes; absent = None."""

    hidden_norms: Tensor  # (L+1, samples), float64
    gradient_norms: Tensor  # (L+1, samples), float64
    error_norms: Tensor  # (samples,), float64: ‖∂ℓ/∂logits‖
    directions: Directions | None = None
    non_finite: dict[str, int] | None = None
    images: int = 0
    batches: int = 0
    accuracy: tuple[float, ...] | None = None  # one per seed
    control_accuracy: tuple[float, ...] | None = None
    accuracy_images: int | None = None  # test images behind one accuracy, if known
    matched_seeds: bool = True
    credit: CreditEvidence | None = None
    credit_missing: str = NO_CREDIT  # why `credit` is None
    leak: LabelLeak | None = None
    weight_drift: Layers | None = None  # of embedding, blocks and read-out
    collapsed: bool = False  # D2 fires as collapsed: cosines with the reference mean nothing


class Ledger:
    """Adds up traces; holds per-sample norms and sums, never a batch, and waits for no device."""

    def __init__(self, stream: Stream) -> None:
        self._read = stream.vectors
        self._hidden, self._gradient, self._error = _Columns(), _Columns(), _Columns()
        self._bad: dict[str, Tensor | int] = {}
        self._correct: Tensor | int = 0
        self._groups = _Grouped(GROUP)
        self._whole = _Grouped(None)
        self.images = 0
        self.batches = 0
        self.predictions = 0

    def add(self, trace: Trace) -> None:
        """Reduce one batch to what the diagnostics need."""
        gradients = [self._read(gradient) for gradient in trace.gradients]
        hidden = self._hidden.add(norm_table([self._read(state) for state in trace.hiddens]))
        gradient = self._gradient.add(norm_table(gradients))
        self._error.add(_error_norms(trace.error, rows=gradient.shape[1])[None])
        self._count("states", trace.hiddens, hidden)
        self._count("gradients", trace.gradients, gradient)
        self._count("logits", (trace.logits,), trace.logits.sum(-1))
        self._groups.add(gradients)
        if self._groups.count < 2:
            self._whole.add(gradients)
        guess = trace.logits.argmax(-1)
        if guess.shape == trace.labels.shape and not trace.labels.is_floating_point():
            self._correct = self._correct + (guess == trace.labels).sum()
            self.predictions += int((trace.labels >= 0).sum()) if trace.labels.dim() > 1 else len(trace.labels)
        self.images += len(trace.logits)
        self.batches += 1

    def evidence(self) -> Evidence:
        """The norms and sums, on the CPU."""
        return Evidence(
            hidden_norms=self._hidden.table(),
            gradient_norms=self._gradient.table(),
            error_norms=self._error.table()[0],
            directions=self._directions(),
            non_finite={where: int(count) for where, count in self._bad.items()},
            images=self.images,
            batches=self.batches,
        )

    @property
    def accuracy(self) -> float | None:
        """Share of right predictions; None where labels are not classes."""
        return int(self._correct) / self.predictions if self.predictions else None

    def _count(self, where: str, tensors: tuple[Tensor, ...], norms: Tensor) -> None:
        # A flat state with a finite norm holds finite numbers only. Looking is free on the CPU, elsewhere it waits.
        flat = all(tensor.dim() == 2 for tensor in tensors)
        clean = flat and norms.device.type == "cpu" and bool(norms.isfinite().all())
        bad = 0 if clean else torch.stack([non_finite(tensor) for tensor in tensors]).sum()
        self._bad[where] = self._bad.get(where, 0) + bad

    def _directions(self) -> Directions | None:
        return self._groups.directions() or self._whole.directions()


class _Columns:
    """A table that grows to the right; its room grows by a quarter at a time, so that it is hardly ever copied."""

    def __init__(self) -> None:
        self._room: Tensor | None = None
        self._used = 0

    def add(self, columns: Tensor) -> Tensor:
        """Append, and hand back what was appended."""
        wanted = self._used + columns.shape[1]
        if self._room is None or wanted > self._room.shape[1]:
            room = columns.new_empty(len(columns), max(1024, wanted + wanted // 4))
            if self._room is not None:
                room[:, : self._used] = self._room[:, : self._used]
            self._room = room
        self._room[:, self._used : wanted] = columns
        self._used = wanted
        return columns

    def table(self) -> Tensor:
        """All columns, on the CPU."""
        if self._room is None:
            return torch.zeros(1, 0, dtype=torch.float64)
        return self._room[:, : self._used].cpu()


class _Grouped:
    """Unit directions of the mean gradient over `size` consecutive images (None: over each batch), summed.

    All layers lie one after the other in one vector: a few operations serve them all.
    """

    def __init__(self, size: int | None) -> None:
        self._size = size
        self._filled = 0
        self._partial: Tensor | None = None
        self._sums: Tensor | None = None
        self._zeros: Tensor | None = None
        self._widths: list[int] = []
        self._layer = torch.zeros(0)
        self.count = 0

    def add(self, gradients: list[Tensor]) -> None:
        if not self._widths:
            self._widths = [gradient.shape[-1] for gradient in gradients]
            layers = torch.arange(len(gradients), device=gradients[0].device)
            self._layer = layers.repeat_interleave(torch.tensor(self._widths, device=layers.device))
        start, images = 0, len(gradients[0])
        while start < images:
            room = images if self._size is None else self._size - self._filled
            stop = min(images, start + room)
            sums = torch.cat([_sum(gradient[start:stop]) for gradient in gradients]).double()
            self._partial = sums if self._partial is None else self._partial + sums
            self._filled += stop - start
            if self._size is None or self._filled == self._size:
                self._close(self._partial)
            start = stop

    def _close(self, total: Tensor) -> None:
        norms = total.new_zeros(len(self._widths)).index_add_(0, self._layer, total.square()).sqrt()
        scale = norms[self._layer]
        units, zeros = torch.where(scale > 0, total / scale, total), (norms == 0).long()
        self._sums = units if self._sums is None else self._sums + units
        self._zeros = zeros if self._zeros is None else self._zeros + zeros
        self._partial, self._filled = None, 0
        self.count += 1

    def directions(self) -> Directions | None:
        if self._sums is None or self._zeros is None or self.count < 2:
            return None
        return Directions(
            tuple(torch.split(self._sums.cpu(), self._widths)), self.count, tuple(self._zeros.tolist()), self._size
        )


def non_finite(tensor: Tensor) -> Tensor:
    """How many numbers are NaN or infinite: x - x is 0 for a finite number and NaN, which counts, for any other."""
    return torch.count_nonzero(tensor - tensor)


def norm_table(vectors: list[Tensor]) -> Tensor:
    """Norms of all layers, (layers, rows) in float64.

    On the CPU, where looking is free, float32 numbers are squared in float32 unless that would over- or underflow.
    """
    positions = [vector.shape[1:-1].numel() for vector in vectors]
    if len(set(positions)) > 1:
        raise InvalidInput(
            f"With read='all' the states have {', '.join(map(str, positions))} positions a sample.\n"
            "A median over positions would weigh the layers differently. Use read='mean' or 'auto'."
        )
    if vectors[0].device.type == "cpu" and vectors[0].dtype == torch.float32:
        quick = torch.stack([torch.linalg.vector_norm(vector, dim=-1).flatten() for vector in vectors])
        low, high = quick.aminmax()
        if SAFE[0] < low.item() and high.item() < SAFE[1]:
            return quick.double()
    return torch.stack([_norms(vector) for vector in vectors])


def _norms(vectors: Tensor) -> Tensor:
    """‖·‖₂ along the features in float64, where no float32 number squared over- or underflows; one per row."""
    norms: Tensor = torch.linalg.vector_norm(vectors, dim=-1, dtype=torch.float64)
    return norms.flatten()


def _error_norms(error: Tensor, rows: int) -> Tensor:
    """‖∂ℓ/∂logits‖ of the sample (or position) behind each row of the gradient norms."""
    norms = _norms(error) if error.dim() == 2 or error[..., 0].numel() == rows else _norms(error.flatten(1))
    return norms.repeat_interleave(rows // len(norms))


def _sum(vectors: Tensor) -> Tensor:
    rows = vectors.flatten(0, -2)
    return (rows.float() if rows.dtype in (torch.float16, torch.bfloat16) else rows).sum(0)
