"""Which test images a network gets right, and whether its own accuracy agrees with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import nn

from creditscope.auditing.input_checks import check_labels, checked_batches
from creditscope.auditing.traces import as_input_error
from creditscope.errors import InvalidInput
from creditscope.statistics.margin import binomial_variance
from creditscope.stream.isolation import undisturbed
from creditscope.stream.states import called, logits_of
from creditscope.stream.unwrap import bare

APART = 5.0  # standard errors between two accuracies of one network beyond which they are of different images


def right_answers(network: nn.Module, batches: Sequence[Any]) -> NDArray[numpy.bool_]:
    """Which images the network gets right, in order, (images,)."""
    model, right = bare(network), []
    with undisturbed(model), torch.no_grad():
        for index, batch in enumerate(checked_batches(batches, model)):
            with as_input_error(model, batch):
                logits = logits_of(called(model, batch.inputs))
            check_labels(batch, logits.shape[-1], index)
            right.append((logits.argmax(-1) == batch.labels).cpu())
    answers: NDArray[numpy.bool_] = torch.cat(right).numpy()
    return answers


def check_agreement(evaluated: float, right: NDArray[numpy.bool_], who: str) -> None:
    """Refuse an accuracy that these images do not bear out: |a - b| > 5 √(a(1 - a)/N + b(1 - b)/N)."""
    measured, images = float(right.mean()), len(right)
    error = math.sqrt(binomial_variance(evaluated, images) + binomial_variance(measured, images))
    if abs(evaluated - measured) > APART * error:
        raise InvalidInput(
            f"evaluate(model) = {evaluated:.4g}, but the network gets {measured:.4g} of the {images:,} images in "
            f"batches right ({who}).\n"
            "One of the two is not the test accuracy of this network. Let evaluate use the images of batches, in "
            "evaluation mode; are its images those of the training set?"
        )


def packed(right: NDArray[numpy.bool_]) -> str:
    """The answers as hexadecimal digits, eight images to two digits."""
    return numpy.packbits(right).tobytes().hex()


def unpacked(digits: str, images: int) -> NDArray[numpy.bool_]:
    """The answers behind hexadecimal digits, (images,)."""
    bits = numpy.unpackbits(numpy.frombuffer(bytes.fromhex(digits), dtype=numpy.uint8), count=images)
    answers: NDArray[numpy.bool_] = bits.astype(bool)
    return answers
