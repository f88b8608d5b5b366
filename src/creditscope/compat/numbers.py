"""The numbers of the published protocol, measured as published.

Gradients are those of the batch-mean loss, medians are over the first batch, directions over whole batches. Our own
diagnostics judge these numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.auditing.fingerprints import Fingerprints
from creditscope.auditing.input_checks import checked_batches
from creditscope.auditing.measures import bad_weights
from creditscope.auditing.traces import as_input_error, traces
from creditscope.diagnostics.drift import stability_layer
from creditscope.errors import InvalidInput
from creditscope.evidence.ledger import Ledger
from creditscope.evidence.norms import norm_table
from creditscope.evidence.records import Evidence
from creditscope.stream.find import find_stream
from creditscope.stream.isolation import undisturbed
from creditscope.stream.states import Stream

VANISHED = 1e-30  # a mean gradient of a smaller norm has no direction; as published, it is replaced by zero


def residual_norms(model: nn.Module, x: Tensor) -> list[float]:
    """The scale of the stream: median over samples of ‖h_l‖₂, for l = 0..L.

    >>> import creditscope, torch
    >>> from creditscope.networks.build import build
    >>> len(creditscope.residual_norms(build("resmlp", 6, 3, seed=0, d=8, depth=2), torch.ones(4, 6)))
    3
    """
    stream = _published(find_stream(model))
    fingerprints = Fingerprints(disjoint=False)  # one batch, as published: repeated samples change no median
    (batch,) = checked_batches([(x, _no_labels(x))], model, fingerprints)  # the labels are not used
    with undisturbed(model), torch.no_grad(), as_input_error(model, batch):
        rows = [stream.reading.rows(state) for state in stream.run(batch.inputs).hiddens]
    medians: list[float] = [norm_table([row])[0].median().item() * factor for row, factor in rows]
    return medians


def _no_labels(x: Any) -> Tensor:
    """A label for every sample, for a measure that uses none; what is no batch has no samples."""
    return torch.zeros(len(x) if isinstance(x, Tensor) and x.dim() and not x.is_nested else 1)


def bp_grad_norms(model: nn.Module, x: Tensor, y: Tensor) -> list[float]:
    """The size of the reference: median over samples of ‖∂(mean loss)/∂h_l‖₂, for l = 0..L; it carries 1/N.

    >>> import creditscope, torch
    >>> from creditscope.networks.build import build
    >>> network = build("resmlp", 6, 3, seed=0, d=8, depth=2)
    >>> len(creditscope.bp_grad_norms(network, torch.ones(4, 6), torch.tensor([0, 1, 2, 0])))
    3
    """
    return published_numbers(model, [(x, y)], check_gradient=False, disjoint=False).gradient_norms


def cross_batch_direction_stability(model: nn.Module, eval_batches: Iterable[Any], layer_index: int) -> float:
    """Agreement of the batches' mean gradients at h_l; NaN for a single batch.

    u_k = (mean of g_l over batch k)/‖·‖, zero if that norm is below 1e-30;   mean over pairs j < k of ⟨u_j, u_k⟩

    >>> import creditscope, torch
    >>> from creditscope.networks.build import build
    >>> network = build("resmlp", 6, 3, seed=0, d=8, depth=2)
    >>> inputs, labels = torch.linspace(-1, 1, 384).view(64, 6), torch.arange(64) % 3
    >>> batches = list(zip(inputs.split(32), labels.split(32)))
    >>> -1 <= creditscope.cross_batch_direction_stability(network, batches, layer_index=1) <= 1
    True
    """
    return mean_pairwise(published_numbers(model, eval_batches, layer_index, check_gradient=False).directions)


@dataclass(frozen=True, slots=True)
class PublishedNumbers:
    """The numbers that both published protocols read from a network."""

    evidence: Evidence  # norms of the first batch, non-finite numbers of all of them
    accuracy: float | None
    gradient_norms: list[float]  # medians over the first batch, of its mean loss
    directions: list[Tensor]  # one per batch
    layer: int  # at which the directions were taken


def published_numbers(
    model: nn.Module,
    batches: Iterable[Any],
    layer: int | None = None,
    *,
    check_gradient: bool = True,
    disjoint: bool = True,
) -> PublishedNumbers:
    """One pass over the batches; the model is left as it was."""
    stream = _published(find_stream(model))
    first, whole = Ledger(stream), Ledger(stream)
    directions: list[Tensor] = []
    samples = depth = 0
    with undisturbed(model):
        for trace in traces(stream, batches, None, check_gradient, {}, disjoint=disjoint):
            if not directions:
                first.add(trace)
                samples, depth = trace.losses.numel(), len(trace.gradients) - 1
            whole.add(trace)
            gradient = stream.vectors(trace.gradients[_layer(layer, depth)])
            directions.append(_direction(gradient.cpu().double() / trace.losses.numel()))
    evidence = replace(
        first.evidence(), non_finite=(whole.evidence().non_finite or {}) | {"weights": bad_weights(model)}
    )
    norms = evidence.gradient_medians / samples
    return PublishedNumbers(evidence, whole.accuracy, norms.tolist(), directions, _layer(layer, depth))


def _published(stream: Stream) -> Stream:
    """Read token 0 of a state with tokens, unless the network declares another one."""
    if stream.rule == "auto":
        stream.rule = "first"
    return stream


def _direction(gradient: Tensor) -> Tensor:
    """The unit vector along the mean over samples, zero if that mean vanishes."""
    mean = gradient.flatten(0, -2).mean(0)
    norm = mean.norm()
    return torch.zeros_like(mean) if norm < VANISHED else mean / norm


def mean_pairwise(directions: list[Tensor]) -> float:
    """mean over j < k of ⟨u_j, u_k⟩ = (‖Σ u_k‖² - Σ ‖u_k‖²)/(K(K - 1)); NaN if there is no pair."""
    count, units = len(directions), torch.stack(directions)
    pairs = (units.sum(0) ** 2).sum() - (units**2).sum()
    return float(pairs) / (count * (count - 1)) if count > 1 else float("nan")


def _layer(index: int | None, depth: int) -> int:
    """The layer of (c), counted from 0; a negative one counts back from the deepest."""
    if index is None:
        return stability_layer(depth)
    if isinstance(index, bool) or not isinstance(index, int) or not -depth - 1 <= index <= depth:
        raise InvalidInput(
            f"There is no layer {index!r}: the stream has the states h_0 to h_{depth}.\n"
            f"No gradient could be compared. Pass a layer from 0 to {depth}."
        )
    return index % (depth + 1)
