"""creditscope audits networks that were trained without backprop: the public API on one page."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

_PUBLIC = {
    "audit": "auditing.audit",
    "audit_arrays": "auditing.arrays",
    "experiment": "experiments.experiment",
    "depth_utility": "experiments.depth_utility",
    "compare": "study.comparison",
    "fit": "training.fit",
    "fit_many": "training.many",
    "load": "runs.run",
    "rule": "methods.binding",
    "check_rule": "conformance.check",
    "Monitor": "monitoring.monitor",
    "CreditscopeCallback": "monitoring.lightning",
    "plain_twin": "stream.reference_model",
    "explain": "glossary.explanation",
    "Report": "records.report",
    "Batch": "batch",
    "CreditscopeError": "errors",
    "BadFile": "errors",
    "DamagedFile": "errors",
    "DataUnavailable": "errors",
    "InvalidInput": "errors",
    "ModelMismatch": "errors",
    "NoRoom": "errors",
    "NotDeterministic": "errors",
    "NotTheGradient": "errors",
    "OutOfResources": "errors",
    "FunctionFailed": "errors",
    "AmbiguousStream": "errors",
    "ModelChanged": "errors",
    "UnknownName": "errors",
}
_PUBLISHED = {  # the names of the published protocol, so that code written against it runs after changing one import
    "FAProtocol": "compat",
    "diagnose": "compat",
    "DiagnosticReport": "compat",
    "DiagnosticThresholds": "compat",
    "residual_norms": "compat",
    "bp_grad_norms": "compat",
    "cross_batch_direction_stability": "compat",
}
_WHERE = _PUBLIC | _PUBLISHED
__all__ = ["__version__", *_WHERE]

if TYPE_CHECKING:
    from creditscope.auditing.arrays import audit_arrays as audit_arrays
    from creditscope.auditing.audit import audit as audit
    from creditscope.batch import Batch as Batch
    from creditscope.compat import DiagnosticReport as DiagnosticReport
    from creditscope.compat import DiagnosticThresholds as DiagnosticThresholds
    from creditscope.compat import FAProtocol as FAProtocol
    from creditscope.compat import bp_grad_norms as bp_grad_norms
    from creditscope.compat import cross_batch_direction_stability as cross_batch_direction_stability
    from creditscope.compat import diagnose as diagnose
    from creditscope.compat import residual_norms as residual_norms
    from creditscope.conformance.check import check_rule as check_rule
    from creditscope.errors import AmbiguousStream as AmbiguousStream
    from creditscope.errors import BadFile as BadFile
    from creditscope.errors import CreditscopeError as CreditscopeError
    from creditscope.errors import DamagedFile as DamagedFile
    from creditscope.errors import DataUnavailable as DataUnavailable
    from creditscope.errors import FunctionFailed as FunctionFailed
    from creditscope.errors import InvalidInput as InvalidInput
    from creditscope.errors import ModelChanged as ModelChanged
    from creditscope.errors import ModelMismatch as ModelMismatch
    from creditscope.errors import NoRoom as NoRoom
    from creditscope.errors import NotDeterministic as NotDeterministic
    from creditscope.errors import NotTheGradient as NotTheGradient
    from creditscope.errors import OutOfResources as OutOfResources
    from creditscope.errors import UnknownName as UnknownName
    from creditscope.experiments.depth_utility import depth_utility as depth_utility
    from creditscope.experiments.experiment import experiment as experiment
    from creditscope.glossary.explanation import explain as explain
    from creditscope.methods.binding import rule as rule
    from creditscope.monitoring.lightning import CreditscopeCallback as CreditscopeCallback
    from creditscope.monitoring.monitor import Monitor as Monitor
    from creditscope.records.report import Report as Report
    from creditscope.runs.run import load as load
    from creditscope.stream.reference_model import plain_twin as plain_twin
    from creditscope.study.comparison import compare as compare
    from creditscope.training.fit import fit as fit
    from creditscope.training.many import fit_many as fit_many


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562), so that importing the package costs nothing."""
    if name == "testing":  # a package of its own, imported by nothing else
        return importlib.import_module("creditscope.testing")
    if name not in _WHERE:
        raise AttributeError(f"module 'creditscope' has no attribute {name!r}")
    return getattr(importlib.import_module(f"creditscope.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
