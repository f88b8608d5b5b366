"""The first 30 epochs of the public logs beside ours: accuracy, and both angles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from pydantic import TypeAdapter

from creditscope.papers.archive import RunArchive
from creditscope.papers.paper import CurvePanel, CurveSection, Where
from creditscope.papers.published import read_data
from creditscope_papers.akrout2019.claims import EXPERIMENT, decay_closes_the_angle
from creditscope_papers.akrout2019.rows import DECAYED, PLAIN, ROWS, credit_angle, weight_angle

LOGS = read_data(
    Path(__file__).with_name("curves.json"),
    TypeAdapter(dict[str, dict[str, tuple[float, ...]]]),
    "The published curves",
)


def what_decay_does(archive: RunArchive) -> Iterator[str]:
    """The finding about decay, and why an angle without it falls too."""
    answer = decay_closes_the_angle.ask(archive)
    yield f"{decay_closes_the_angle.statement}: {answer.status} ({answer.because})."
    plain, decayed = (_accuracies(archive, where) for where in (PLAIN, DECAYED))
    if plain and decayed:
        yield (
            f"Accuracy with this decay: {100 * fmean(decayed):.1f} %, without: {100 * fmean(plain):.1f} %. Decay also "
            "shrinks the weights themselves, so that this says nothing about a weaker one."
        )
    yield (
        "Without decay B - W never shrinks, since both get the same steps: the angle falls because W and B grow past "
        "their difference. With decay the difference itself shrinks by 1 - ηλ a step."
    )


def _accuracies(archive: RunArchive, where: Where) -> list[float]:
    return [record.accuracy for record in archive.select(EXPERIMENT, where).records.values()]


CURVES = CurveSection(
    heading="Epoch by epoch, and what decay does",
    experiment=EXPERIMENT,
    rows={group.row: group.where for group in ROWS},
    panels=(
        CurvePanel("accuracy", "Test accuracy", "per cent", lambda row: 100 * row.accuracy, LOGS["accuracy"]),
        CurvePanel(
            "credit-angle", "Angle of the credit to the gradient", "degrees", credit_angle, LOGS["credit_angle"]
        ),
        CurvePanel("weight-angle", "Angle of B to W, last layer", "degrees", weight_angle, LOGS["weight_angle"]),
    ),
    remarks=what_decay_does,
)
