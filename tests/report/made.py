"""Reports made by hand, so that what is shown can be compared with what was put in."""

from __future__ import annotations

from dataclasses import replace

from creditscope.protocols import judge, protocol_named
from creditscope.provenance import Guard, GuardStatus
from creditscope.records.report import Provenance, Report, Subject
from creditscope.verdict import Finding, Limit, Measurement, Missing, Status

LIMITS = {
    "D0": ("Finite numbers", Limit(0, "above", "one is enough", "absolute")),
    "D1": ("Scale stability", Limit(50.0, "above", "backprop grows 1-11x")),
    "D2": ("Reference validity", Limit(1e-7, "below", "the clamp")),
    "D3": ("Depth utility", Limit(2.0, "below", "the spread of seeds", "points")),
    "D4": ("Reference drift", Limit(0.3, "above", "backprop has 0.1", "absolute")),
}
COLUMNS = {"D1": "growth", "D2": "‖g‖/128", "D4": "drift"}
HEALTHY: dict[str, Measurement | Missing] = {
    "D0": Measurement(0.0),
    "D1": Measurement(1.5, per_layer=(1.1, 1.5), axis="block"),
    "D2": Measurement(3e-4, per_layer=(5e-4, 4e-4, 3e-4), cause="fitted"),
    "D3": Measurement(18.0, interval=(13.7, 22.3), note="paired t-interval over 3 seeds"),
    "D4": Measurement(0.12, per_layer=(0.11, 0.12, 0.13), note="at layer 1, 8 groups of 128 images"),
}
EXPLODED = HEALTHY | {
    "D1": Measurement(7000.0, per_layer=(7000.0, 6.0), axis="block"),
    "D2": Measurement(2e-10, per_layer=(1e-6, 3e-10, 2e-10), cause="collapsed", note="gain 2e-08: collapsed"),
}
NORMS = {"hidden_norm": Measurement(14.0, (8.0, 9.0, 14.0)), "gradient_norm": Measurement(0.04, (0.06, 0.05, 0.04))}


def finding(code: str, answer: Measurement | Missing, *, warns: bool = False, variant: str = "") -> Finding:
    """One finding, judged by its own limit."""
    title, limit = LIMITS.get(code, ("Another question", Limit(1 / 3, "below", "it does", "absolute")))
    measured = answer if isinstance(answer, Measurement) else None
    status = limit.judge(answer) if isinstance(answer, Measurement) else Status.SKIPPED
    note = answer.note if isinstance(answer, Measurement) else answer.text
    reason = answer.reason if isinstance(answer, Missing) else None
    remedy = "" if status is Status.PASS else f"Remedy of {code}."
    return Finding(
        code=code,
        title=title,
        status=status,
        measurement=measured,
        limit=limit,
        note=note,
        remedy=remedy,
        means=f"{code} means.",
        does_not_mean=f"No more than {code}.",
        warns=warns,
        variant=variant,
        reason=reason,
        column="‖h‖/‖h_0‖" if variant == "april" else COLUMNS.get(code, code),
    )


def report(
    answers: dict[str, Measurement | Missing] | None = None,
    measures: dict[str, Measurement] | None = None,
    protocol: str = "three",
    **fields: object,
) -> Report:
    """A report on a network of two blocks."""
    variants = protocol_named(protocol).variants
    findings = {
        code: finding(code, answer, warns=code == "D8", variant=variants.get(code, ""))
        for code, answer in (answers or HEALTHY).items()
    }
    made = Report(
        subject=Subject(name="a network", model="ResidualMLP", depth=2, parameters=541_962),
        protocol=protocol,
        accuracy=(0.75, 0.74, 0.73),
        control_accuracy=(0.56, 0.55, 0.57),
        findings=findings,
        measures=NORMS | (measures or {}),
        verdict=judge(protocol_named(protocol), findings),
        provenance=Provenance(
            creditscope="0.1.0",
            torch="2.13.0",
            python="3.11.2",
            device="cpu",
            dtype="float32",
            images=1000,
            batches=8,
            read="auto",
            guards={
                "deterministic": Guard(GuardStatus.PASSED),
                "gradient": Guard(GuardStatus.PASSED, "finite difference within 1%, in float64"),
            },
        ),
    )
    return made.model_copy(update=fields)


def without_gradient_check(made: Report) -> Report:
    """The same report after an audit whose gradient check was off."""
    guards = {"deterministic": Guard(GuardStatus.PASSED), "gradient": Guard(GuardStatus.OFF)}
    return made.model_copy(update={"provenance": made.provenance.model_copy(update={"guards": guards})})


def with_limit(made: Report, code: str, at: float) -> Report:
    """The same report with a limit of the user's own."""
    own = made.findings[code].limit.moved(at)
    return made.model_copy(update={"findings": made.findings | {code: replace(made.findings[code], limit=own)}})
