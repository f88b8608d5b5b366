"""Norms that neither overflow nor underflow, and counts of non-finite numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from creditscope.errors import InvalidInput

SAFE = (1e-15, 1e15)  # norms whose float32 squares are exact enough


def non_finite(tensor: Tensor) -> Tensor:
    """How many numbers are NaN or infinite: x - x is 0 for a finite number, and NaN, which counts, for any other."""
    return torch.count_nonzero(tensor - tensor)


def norm_table(vectors: Sequence[Tensor]) -> Tensor:
    """Norms of all layers, (layers, rows) in float64.

    On the CPU, where values can be checked cheaply, float32 is squared in float32 unless it would over- or underflow.
    """
    table = torch.stack(norm_rows(vectors))
    if table.dtype == torch.float32 and not ordinary(table):
        table = torch.stack([norms_of(vector) for vector in vectors])
    return table.double()


def ordinary(norms: Tensor) -> bool:
    """Whether the squares behind all norms are exact enough in float32; False on other devices, unchecked."""
    if norms.device.type != "cpu":
        return False
    low, high = norms.aminmax()
    return SAFE[0] < low.item() and high.item() < SAFE[1]


def norm_rows(vectors: Sequence[Tensor]) -> list[Tensor]:
    """Norms, one row per layer: in float32, to be checked by `ordinary`, or in float64."""
    positions = [vector.shape[1:-1].numel() for vector in vectors]
    if len(set(positions)) > 1:
        raise InvalidInput(
            f"With read='all' the states have {', '.join(map(str, positions))} positions per sample.\n"
            "A median over positions would weight the layers differently. Use read='mean' or 'auto'."
        )
    if all(vector.device.type == "cpu" and vector.dtype == torch.float32 for vector in vectors):
        return [torch.linalg.vector_norm(vector, dim=-1).flatten() for vector in vectors]
    return [norms_of(vector) for vector in vectors]


def norms_of(vectors: Tensor) -> Tensor:
    """‖·‖₂ along the features in float64, where no float32 number squared over- or underflows; one per row."""
    norms: Tensor = torch.linalg.vector_norm(vectors, dim=-1, dtype=torch.float64)
    return norms.flatten()


def error_norms(error: Tensor, rows: int) -> Tensor:
    """‖∂ℓ/∂logits‖ of the sample (or position) behind each row of the gradient norms."""
    norms = norms_of(error) if error.dim() == 2 or error[..., 0].numel() == rows else norms_of(error.flatten(1))
    return norms if norms.shape[0] == rows else norms.repeat_interleave(rows // norms.shape[0])


def position_norms(states: Sequence[Tensor]) -> Tensor:
    """√(mean over tokens of ‖h_p‖²) of every state (N, tokens, d), (layers, N) in float64."""
    table = norm_table([state.flatten(1) for state in states])
    return table * table.new_tensor([state.shape[1] for state in states]).rsqrt()[:, None]


def position_products(states: Sequence[Tensor], gradients: Sequence[Tensor]) -> list[Tensor]:
    """Σ over positions of ‖h_p‖·‖g_p‖, one row per layer, (N,) each in float64; of flat states ‖h‖·‖g‖."""
    return [(lengths(state) * lengths(gradient)).sum(1) for state, gradient in zip(states, gradients, strict=True)]


def lengths(tensor: Tensor) -> Tensor:
    """‖·‖₂ of every position of a state (N, d), (N, tokens, d) or (N, C, H, W), (N, positions) in float64."""
    axis = 1 if tensor.dim() > 3 else -1
    norms: Tensor = torch.linalg.vector_norm(tensor, dim=axis, dtype=torch.float64)
    return norms.reshape(len(tensor), -1)
