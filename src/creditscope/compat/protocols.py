"""The published interfaces `diagnose` and `FAProtocol`: their names and numbers, with verdicts that fail closed.

As published, gradients are those of the batch-mean loss, and scale and reference come from the first batch. Unlike the
published code, a network with NaN is never trusted, a baseline that was not run counts as not measured, and the floor
of the gradient is that of 128 samples for every N.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from torch import Tensor, nn

from creditscope.auditing.input_checks import checked_accuracies
from creditscope.compat.numbers import PublishedNumbers, mean_pairwise, published_numbers
from creditscope.diagnostics import diagnostics, examine
from creditscope.errors import InvalidInput
from creditscope.evidence.records import Evidence
from creditscope.protocols import judge, protocol_named
from creditscope.verdict import Finding, Measurement, Missing, Reason

FOUR = protocol_named("four")
THREE = replace(  # the published protocol does not ask why the reference is small
    protocol_named("three"),
    modes=tuple(replace(mode, requires=dict.fromkeys(mode.requires, "")) for mode in protocol_named("three").modes),
)


@dataclass(frozen=True, slots=True)
class DiagnosticThresholds:
    """Where `diagnose` raises its flags: (b) and (d) below, (a) and (c) above.

    >>> import creditscope
    >>> creditscope.DiagnosticThresholds(frozen_acc_margin_pp=5.0).h_norm_explosion_ratio
    50.0
    """

    g_norm_floor: float = 1e-7
    h_norm_explosion_ratio: float = 50.0
    stability_drift_ceiling: float = 0.30
    frozen_acc_margin_pp: float = 2.0

    def __post_init__(self) -> None:
        _check_thresholds(asdict(self))


@dataclass(frozen=True, slots=True)
class DiagnosticReport:
    """The result of `diagnose`; `to_dict()` is the published record, `str()` a page to read.

    residual_norms         median ‖h_l‖ over the first batch, l = 0..L
    bp_grad_norms          median ‖∂(mean loss)/∂h_l‖ over the first batch, l = 0..L
    cross_batch_stability  mean pairwise cosine of the batches' mean gradients at h_{stability_layer}; NaN for one batch
    verdict                `trustworthy`, `needs walk-back: <flags>` or `incomplete: <what is not known>`

    >>> import creditscope, torch
    >>> from creditscope.networks.build import build
    >>> network = build("resmlp", 6, 3, seed=0, d=8, depth=2)
    >>> inputs, labels = torch.linspace(-1, 1, 384).view(64, 6), torch.arange(64) % 3
    >>> report = creditscope.diagnose(network, [(inputs, labels)], headline_acc=0.9)
    >>> report.verdict == report.to_dict()["verdict"]
    True
    """

    method_name: str
    notes: str
    residual_norms: list[float]
    bp_grad_norms: list[float]
    stability_layer: int
    cross_batch_stability: float
    headline_acc: float | None
    frozen_baseline_acc: float | None
    verdict: str
    thresholds: DiagnosticThresholds
    findings: Mapping[str, Finding] = field(repr=False)  # behind the verdict

    def to_dict(self) -> dict[str, Any]:
        """The published record: plain numbers, lists and text."""
        record = asdict(replace(self, findings={}))
        return {name: value for name, value in record.items() if name != "findings"}

    def __str__(self) -> str:
        layers = enumerate(zip(self.residual_norms, self.bp_grad_norms, strict=True))
        lines = [
            f"{self.method_name}: {self.verdict}",
            *([self.notes] if self.notes else []),
            "",
            f"{'layer':>5}  {'median ‖h‖':>10}  {'median ‖g‖':>10}",
            *(f"{layer:>5}  {h:>10.4g}  {g:>10.3g}" for layer, (h, g) in layers),
            "",
            *(_flag_line(mode.flag, self.findings[code]) for mode in FOUR.modes for code in mode.requires),
            "",
            "‖h‖ and ‖g‖ are of the first batch, g of its mean loss. (b) is judged as at 128 samples.",
        ]
        return "\n".join(lines)


def diagnose(
    model: nn.Module,
    eval_batches: Iterable[Any],
    headline_acc: float,
    frozen_baseline_acc: float | None = None,
    method_name: str = "method",
    notes: str = "",
    layer_for_stability: int | None = None,
    thresholds: DiagnosticThresholds | None = None,
) -> DiagnosticReport:
    """The four-flag protocol: any flag rejects the claim, and a number that was not measured is never trusted.

    (a) max over l of m_{l+1}/m_l, m_l = median ‖h_l‖, first batch    (b) median ‖g_L‖, first batch
    (c) mean pairwise cosine of the batches' mean gradients           (d) headline_acc - frozen_baseline_acc, in points

    >>> import creditscope, torch
    >>> from creditscope.networks.build import build
    >>> network = build("resmlp", 6, 3, seed=0, d=8, depth=2)
    >>> inputs, labels = torch.linspace(-1, 1, 384).view(64, 6), torch.arange(64) % 3
    >>> batches = list(zip(inputs.split(32), labels.split(32)))
    >>> report = creditscope.diagnose(network, batches, headline_acc=0.9, frozen_baseline_acc=0.89)
    >>> "(d) depth" in report.verdict
    True
    """
    limits = thresholds or DiagnosticThresholds()
    accuracy, control = _share(headline_acc, "headline_acc"), _share(frozen_baseline_acc, "frozen_baseline_acc")
    numbers = published_numbers(model, eval_batches, layer_for_stability)
    at = {"D1": limits.h_norm_explosion_ratio, "D2": limits.g_norm_floor, "D3": limits.frozen_acc_margin_pp}
    findings = _findings(numbers.evidence, accuracy, control, at)
    drift = replace(diagnostics["D4"], measure=lambda _: _drift(numbers))
    findings["D4"] = examine(drift, numbers.evidence, limits.stability_drift_ceiling)
    return DiagnosticReport(
        method_name=method_name,
        notes=notes,
        residual_norms=numbers.evidence.hidden_medians.tolist(),
        bp_grad_norms=numbers.gradient_norms,
        stability_layer=numbers.layer,
        cross_batch_stability=mean_pairwise(numbers.directions),
        headline_acc=accuracy,
        frozen_baseline_acc=control,
        verdict=str(judge(FOUR, findings)),
        thresholds=limits,
        findings=findings,
    )


@dataclass(frozen=True, slots=True, eq=False)
class FAProtocol:
    """The three-diagnostic protocol on one batch; its accuracy is measured on that batch.

    >>> import creditscope, torch
    >>> from creditscope.networks.build import build
    >>> network = build("resmlp", 6, 3, seed=0, d=8, depth=2)
    >>> inputs, labels = torch.linspace(-1, 1, 384).view(64, 6), torch.arange(64) % 3
    >>> answer = creditscope.FAProtocol(network, inputs, labels).run(frozen_baseline_acc=0.9)
    >>> answer["verdict"]
    'FAIL(D3)'
    """

    model: nn.Module
    x_eval: Tensor
    y_eval: Tensor
    d1_threshold: float = 50.0
    d2_eps: float = 1e-8
    d2_factor: float = 10.0
    d3_margin_pp: float = 2.0

    def __post_init__(self) -> None:
        names = ("d1_threshold", "d2_eps", "d2_factor", "d3_margin_pp")
        _check_thresholds({name: getattr(self, name) for name in names})

    def run(self, frozen_baseline_acc: float | None = None) -> dict[str, Any]:
        """The verdict, and {value, threshold, fires} of each diagnostic; fires is None where it is undecided.

        D1_scale_growth   max over l of m_{l+1}/m_l, m_l = median ‖h_l‖
        D2_ref_validity   v = median ‖∂(mean loss)/∂h_L‖; fires if v·N/128 < d2_factor·d2_eps: at N = 128 as published
        D3_depth_utility  accuracy - frozen_baseline_acc, in points
        """
        control = _share(frozen_baseline_acc, "frozen_baseline_acc")
        numbers = published_numbers(self.model, [(self.x_eval, self.y_eval)], disjoint=False)
        limits = {"D1": self.d1_threshold, "D2": self.d2_factor * self.d2_eps, "D3": self.d3_margin_pp}
        findings = _findings(numbers.evidence, numbers.accuracy, control, limits)
        values = {code: findings[code].value for code in limits} | {"D2": numbers.gradient_norms[-1]}
        names = {"D1": "D1_scale_growth", "D2": "D2_ref_validity", "D3": "D3_depth_utility"}
        answers = {
            name: {"value": values[code], "threshold": limits[code], "fires": findings[code].status.fired}
            for code, name in names.items()
        }
        return {"verdict": str(judge(THREE, findings)), "diagnostics": answers}


def _findings(
    evidence: Evidence, accuracy: float | None, control: float | None, limits: Mapping[str, float]
) -> dict[str, Finding]:
    """D0 to D3; with one accuracy per side and no number of images, the point estimate decides D3."""
    trained, frozen = (None if share is None else (share,) for share in (accuracy, control))
    evidence = replace(evidence, accuracy=trained, control_accuracy=frozen)
    names = {"D0": "D0", "D1": "D1", "D2": "D2", "D3": "D3:published"}
    return {code: examine(diagnostics[name], evidence, limits.get(code)) for code, name in names.items()}


def _drift(numbers: PublishedNumbers) -> Measurement | Missing:
    """(c) for the verdict: undefined if the gradient of a batch has no direction."""
    count, vanished = len(numbers.directions), sum(not direction.any() for direction in numbers.directions)
    if count < 2:
        return Missing(Reason.TOO_FEW, "needs at least two disjoint batches, got one")
    if vanished:
        note = f"at layer {numbers.layer}: the mean gradient of {vanished} of {count} batches vanishes"
        return Measurement(float("nan"), note=note)
    return Measurement(mean_pairwise(numbers.directions), note=f"at layer {numbers.layer}, {count} batches")


def _share(given: Any, what: str) -> float | None:
    """One accuracy between 0 and 1, or None."""
    try:
        shares = checked_accuracies(None if given is None else float(given), what)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{what} is {given!r}, not one number.\n"
            "The published functions judge one run by its point estimate. Pass one share between 0 and 1; for several "
            "seeds call creditscope.audit, which uses their spread."
        ) from error
    return None if shares is None else shares[0]


def _check_thresholds(thresholds: Mapping[str, Any]) -> None:
    for name, value in thresholds.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise InvalidInput(
                f"{name} is {value!r}.\nNo number lies beyond such a limit: everything would pass. Pass a number."
            )


def _flag_line(flag: str, finding: Finding) -> str:
    value = "" if finding.value is None else f"{finding.value:.3g}"
    side = f"fires {finding.limit.fires} {finding.limit.at:g}"
    return f"{flag:<13} {finding.status:<9} {value:>9}  {side:<18}  {finding.note}".rstrip()
