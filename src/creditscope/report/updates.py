"""What a report says about updates: the method's own reference in words, and Γ^W tensor by tensor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from creditscope.records.report import Report, UpdateRow, UpdateTable
from creditscope.report.numbers import number

WHOLE = "whole network, as usually reported"


def own_reference(report: Report) -> str:
    """What the method itself descends, its cosine with that, and that no alignment to BP is claimed; empty for BP."""
    if report.updates is None or not report.updates.reference:
        return ""
    parts = [f"Reference: {report.updates.reference}."]
    compared = (
        ("gamma_own", "gamma", "credit", "deep layers"),
        ("gamma_update_own", "gamma_update", "updates", "blocks"),
    )
    for own, usual, what, over in compared:
        measure, beside = report.measures.get(own), report.measures.get(usual)
        if measure is not None and measure.cause:
            parts.append(f"It was not computed: {measure.note}.")
        elif measure is not None:
            also = f", with BP {number(beside.value)}" if beside is not None else ""
            parts.append(f"Cosine of the {what} with it {number(measure.value)}{also} (mean over {over}).")
    return " ".join([*parts, "No alignment to BP is claimed."])


@dataclass(frozen=True, slots=True)
class TensorLine:
    """One line of the table: a stage, a tensor of it, or the whole network."""

    name: str
    row: UpdateRow
    stage: bool = False

    @property
    def chance(self) -> str:
        """Mean ± standard deviation of the null."""
        row = self.row
        spread = "" if row.null_std is None else f" ± {number(row.null_std)}"
        return "" if row.null is None else f"{number(row.null)}{spread}"


def tensor_lines(table: UpdateTable) -> Iterator[TensorLine]:
    """Every stage followed by its tensors, then the whole network."""
    for stage in table.stages:
        tensors = [row for row in table.tensors if row.stage == stage.stage]
        if tensors:
            yield TensorLine(stage.name, stage, stage=True)
            yield from (TensorLine(row.name, row) for row in tensors)
    yield TensorLine(WHOLE, UpdateRow(name=WHOLE, stage=-1, cosine=table.whole), stage=True)


def headings(table: UpdateTable) -> tuple[str, ...]:
    """The columns of numbers; that of the own reference only where there is one."""
    own = any(row.own is not None for row in table.stages)
    return ("Γ^W", "by chance", *(("own reference",) if own else ()))


def explained(table: UpdateTable) -> str:
    """What the numbers are."""
    text = (
        f"Cosine of what the optimiser gets with the backprop gradient of the same batch, median over {table.batches} "
        f"batches, {table.images:,} images; a stage is its tensors laid end to end."
    )
    if table.draws:
        text += f" By chance: mean ± standard deviation of {table.draws} draws with {table.null_kind}."
    if "own reference" in headings(table):
        text += f" Own reference: the cosine with {table.reference}."
    return text
