"""The rows of the table: accuracy and both angles after 1, 10 and 30 epochs."""

from __future__ import annotations

import math
from collections.abc import Callable

from creditscope.papers.comparison import Kind
from creditscope.papers.paper import RunGroup, Where
from creditscope.papers.quantities import Quantity, at_epoch
from creditscope.records.run import HistoryRow

EPOCHS = (1, 10, 30)
BP: Where = {"method": "bp"}
FA: Where = {"method": "fa_weights"}
MIRRORS: Where = {"method": "weight_mirror"}
PLAIN: Where = {"method": "kolen_pollack", "weight_decay": 0.0}
DECAYED: Where = {"method": "kolen_pollack", "weight_decay": 1e-3}


def credit_angle(row: HistoryRow) -> float:
    """The angle between the hidden layer's credit and its gradient in degrees, from the mean cosine."""
    return math.degrees(math.acos(max(-1.0, min(1.0, row.gamma[0])))) if row.gamma else math.nan


def weight_angle(row: HistoryRow) -> float:
    """The angle between B and W of the last layer in degrees."""
    return row.angles.get("head.weight", math.nan)


def _after(name: str, heading: str, read: Callable[[HistoryRow], float]) -> tuple[Quantity, ...]:
    kind: Kind = "share" if name == "accuracy" else "degrees"
    return tuple(at_epoch(name, heading, kind, epoch, read, early=True) for epoch in EPOCHS)


ACCURACIES = _after("accuracy", "accuracy", lambda row: row.accuracy)
CREDIT_ANGLES = _after("credit_angle", "credit angle", credit_angle)
WEIGHT_ANGLES = _after("weight_angle", "weight angle", weight_angle)
ROWS = (
    RunGroup("bp", BP, ACCURACIES),
    RunGroup("fa", FA, (*ACCURACIES, *CREDIT_ANGLES)),
    RunGroup("weight mirrors", MIRRORS, (*ACCURACIES, *CREDIT_ANGLES, *WEIGHT_ANGLES)),
    RunGroup("Kolen-Pollack, no decay", PLAIN, (*ACCURACIES, *CREDIT_ANGLES, *WEIGHT_ANGLES)),
    RunGroup("Kolen-Pollack, decay 0.001", DECAYED, (*ACCURACIES, *CREDIT_ANGLES, *WEIGHT_ANGLES)),
)
