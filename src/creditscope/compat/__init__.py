"""The published names: code written against the published protocol runs after changing one import."""

from creditscope.compat.numbers import bp_grad_norms, cross_batch_direction_stability, residual_norms
from creditscope.compat.protocols import DiagnosticReport, DiagnosticThresholds, FAProtocol, diagnose

__all__ = [
    "DiagnosticReport",
    "DiagnosticThresholds",
    "FAProtocol",
    "bp_grad_norms",
    "cross_batch_direction_stability",
    "diagnose",
    "residual_norms",
]
