"""Complete evidence of a healthy network, and families of it that break one thing gradually."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from tests.diagnostics.credit_by_hand import aligned, spread

from creditscope.evidence.alignment import Alignment
from creditscope.evidence.credit import CreditEvidence, HiddenBackprop, Interventions, LabelLeak, Precision
from creditscope.evidence.records import Directions, Evidence, ReadoutProfile, Rival

LAYERS, IMAGES, GROUPS = 5, 64, 8
GAMMAS = (0.5, 0.45, 0.5, 0.4, 0.5)
Family = Callable[[float], Evidence]


def norms(*last: float) -> torch.Tensor:
    """(layers, images), one everywhere but at the last layers."""
    table = torch.ones(LAYERS, IMAGES, dtype=torch.float64)
    for layer, value in enumerate(reversed(last), start=1):
        table[-layer] = value
    return table


def directions(cosine: float) -> Directions:
    """Groups whose mean gradients have this mean pairwise cosine at every layer: ‖Σ u‖² = K + K(K - 1)c."""
    length = torch.tensor([GROUPS + GROUPS * (GROUPS - 1) * cosine], dtype=torch.float64).sqrt()
    return Directions((length,) * LAYERS, GROUPS, (0,) * LAYERS, 128)


def credit(**changes: Any) -> CreditEvidence:
    """Local, well-aligned credit, far from its null, in full precision."""
    numbers = (0.1,) * LAYERS
    whole: dict[str, Any] = {
        "alignment": aligned(GAMMAS),
        "images": IMAGES,
        "null": spread(GAMMAS, 0.01),
        "interventions": Interventions(numbers, numbers, numbers, numbers, numbers, numbers, "float64"),
        "precision": Precision((1.0,) * LAYERS, "float32"),
        "backprop": HiddenBackprop((1e-12,) * (LAYERS - 1), images=IMAGES),
    }
    return CreditEvidence(**(whole | changes))


def profile(gained: float, images: int = 1000) -> ReadoutProfile:
    """Read-outs of which the deepest gets this many images more right than the embedding."""
    more, fewer = (gained, 0) if math.isnan(gained) else (max(0, round(gained)), max(0, round(-gained)))
    rival = Rival("at the embedding", 0.3, more, fewer)
    return ReadoutProfile((0.3, 0.4, 0.4, 0.4, 0.3 + gained / images), (rival,), images, 4000)


def full(**changes: Any) -> Evidence:
    """All that an audit with credit, control and initial weights measures."""
    whole: dict[str, Any] = {
        "hidden_norms": norms(),
        "gradient_norms": norms(),
        "error_norms": norms()[0],
        "step_norms": norms()[1:],
        "same_shape": (True,) * (LAYERS - 1),
        "profile": profile(400),
        "directions": directions(0.1),
        "non_finite": {"states": 0, "weights": 0},
        "images": IMAGES,
        "batches": GROUPS,
        "accuracy": (0.7, 0.71, 0.7),
        "control_accuracy": (0.4, 0.41, 0.4),
        "credit": credit(),
        "leak": LabelLeak(0.0, 0, IMAGES),
        "weight_drift": (0.1,) * (LAYERS + 1),
    }
    return Evidence(**(whole | changes))


def _profile(dose: float) -> Evidence:
    gammas = (GAMMAS[0], *(gamma * (1 - dose) for gamma in GAMMAS[1:]))
    return full(credit=credit(alignment=aligned(gammas), null=spread(gammas, 1e-6)))


# From dose 0, healthy, to dose 1, broken; dose NaN plants NaN. A diagnostic that reads new evidence adds a family.
def _reaching(dose: float) -> Alignment:
    """Of 100 images with a gradient this share has no credit at h_0."""
    return Alignment(GAMMAS, GAMMAS, (100 * dose, *(0,) * (LAYERS - 1)), (100,) * LAYERS, 100)  # type: ignore[arg-type]


FAMILIES: dict[str, Family] = {
    "non-finite numbers": lambda dose: full(non_finite={"states": 1 if math.isnan(dose) else round(10 * dose)}),
    "growth of the stream": lambda dose: full(hidden_norms=norms(10 ** (8 * dose))),
    "size of the gradient": lambda dose: full(gradient_norms=norms(10 ** (-16 * dose))),
    "margin over the control": lambda dose: full(
        accuracy=(0.7, 0.701, 0.699), control_accuracy=tuple(0.4 + 0.4 * dose + step for step in (0, 0.001, -0.001))
    ),
    "influence of the blocks": lambda dose: full(step_norms=norms()[1:] * 10 ** (-16 * dose)),
    "rise of the read-outs": lambda dose: full(profile=profile(400 - 800 * dose)),
    "drift of the gradient": lambda dose: full(directions=directions(dose)),
    "profile of alignment": _profile,
    "spread of chance": lambda dose: full(credit=credit(null=spread(GAMMAS, 10 ** (-3 + 4 * dose)))),
    "reach of credit": lambda dose: full(credit=credit(alignment=_reaching(dose))),
    "precision": lambda dose: full(credit=credit(precision=Precision((1.0, 1 - dose, *(1.0,) * 3), "float16"))),
    "label leak": lambda dose: full(leak=LabelLeak(dose, 1, IMAGES)),
    "hidden backprop": lambda dose: full(
        credit=credit(backprop=HiddenBackprop((10 ** (-12 + 12 * dose),) * (LAYERS - 1), images=IMAGES))
    ),
}
