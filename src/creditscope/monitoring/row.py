"""Row: the numbers of one measured epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from creditscope.verdict import Finding, Status


@dataclass(frozen=True, slots=True)
class Row:
    """The numbers of one epoch; norms are medians over all images of the batches, one per layer."""

    epoch: int
    accuracy: float | None
    hidden_norms: tuple[float, ...]
    gradient_norms: tuple[float, ...]
    findings: Mapping[str, Finding]
    gamma: tuple[float, ...] = ()

    @property
    def fires(self) -> tuple[str, ...]:
        """Codes of the diagnostics that fire."""
        return tuple(code for code, finding in self.findings.items() if finding.status is Status.FIRES)

    def scalars(self) -> dict[str, float]:
        """Every number of the row, by the name under which it is logged."""
        scalars = {code: finding.value for code, finding in self.findings.items() if finding.value is not None}
        if self.accuracy is not None:
            scalars["accuracy"] = self.accuracy
        columns = {"hidden_norm": self.hidden_norms, "gradient_norm": self.gradient_norms, "gamma": self.gamma}
        for name, values in columns.items():
            scalars.update({f"{name}/{layer}": value for layer, value in enumerate(values)})
        return {f"creditscope/{name}": value for name, value in scalars.items()}
