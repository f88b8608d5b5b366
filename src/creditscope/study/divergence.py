"""What is left of a verdict when the run behind it did not end?"""

from __future__ import annotations

from dataclasses import replace

from creditscope.records import Divergence
from creditscope.verdict import Verdict


def after_divergence(verdict: Verdict, diverged: Divergence | None) -> Verdict:
    """A run that stopped early is not the network of its spec: it never passes, and the reader is told."""
    if diverged is None:
        return verdict
    said = f"The run diverged in epoch {diverged.epoch + 1}: {diverged.why}"
    warnings = (*verdict.warnings, said)
    if verdict.outcome != "pass":
        return replace(verdict, warnings=warnings)
    return replace(verdict, text="INCONCLUSIVE(diverged)", outcome="inconclusive", why=said, warnings=warnings)
