"""Writes docs/findings.md and its picture: two findings of ours, answered from the committed records."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

from docs import measure_units
from docs.generate import gallery, pictures, reproduction
from docs.generate.field import ROOT, STYLES, margin, table

from creditscope.files import write_text
from creditscope.papers.claims import Answer, Case, ClaimStatus, decide
from creditscope.papers.paper import Where
from creditscope.records.labels import counted
from creditscope.report.charts.identity import IdentityDot, Panel, identity_svg
from creditscope.report.markdown import escaped
from creditscope.report.numbers import number
from creditscope.study.tables import AuditRow
from creditscope.verdict import Status
from creditscope_papers.hao2026.units import PUBLISHED, collapse_is_of_units, products

PAGE, IMAGES = ROOT / "docs" / "findings.md", ROOT / "docs" / "images"
SHOWN: dict[str, Where] = {
    "backprop": {"method": "bp"},
    "EP": {"method": "ep"},
    "FA": {"method": "fa"},
    "DFA, index input": PUBLISHED,
    "DFA, index output": {"method": "dfa", "method.index": "output"},
}
LEAST = 10  # settings, before the agreement of D3 and D10 is judged
ORDERED = 0.9  # of the pairs that D3 tells apart, in the same order by D10
UNMOVED, FALLEN = (
    0.01,
    0.1,
)  # by which share of itself a number may move and be the same; what is left of one that is lost


# --- the collapse is one of units ---


def sensitivities() -> str:
    """‖h_l‖·‖g_l‖ of the paper's methods after 30 epochs, means over seeds, beside the deepest gradient."""
    archive = reproduction.archives()["reproduction"]
    body = []
    for name, where in SHOWN.items():
        records = list(archive.select("main_audit", where).records.values())
        layers = [fmean(values) for values in zip(*map(products, records), strict=True)]
        deepest = fmean(record.report.findings["D2"].value or math.nan for record in records if record.report)
        body.append([name, str(len(records)), number(deepest), *map(number, layers)])
    return table(("method", "seeds", "‖g_L‖/128", *(f"layer {layer}" for layer in range(5))), body)


def rescaling(rows: Sequence[dict[str, Any]]) -> Answer:
    """Whether a rescaled state leaves all but the clamped cosine and the absolute step as they were."""
    first = {(row["method"], row["seed"]): row for row in rows if not row["exponent"]}
    last = [row for row in rows if row["exponent"] == max(row["exponent"] for row in rows)]
    return decide([_rescaled(first[row["method"], row["seed"]], row) for row in last], len(measure_units.SEEDS) * 2)


def _rescaled(before: dict[str, Any], after: dict[str, Any]) -> Case:
    names = ("accuracy", "gamma", "rho", "sensitivity")
    same = all(abs(float(after[name]) - float(before[name])) <= UNMOVED * abs(float(before[name])) for name in names)
    clamped = abs(after["gamma_clamped"]) <= FALLEN * abs(before["gamma_clamped"])
    step = float(after["rho_absolute_bp"])  # NaN where no step was large enough to be seen in the state's own precision
    text = (
        f"{after['method']}, seed {after['seed']}: exact Γ {before['gamma']:.4f} to {after['gamma']:.4f}, clamped "
        f"{before['gamma_clamped']:.4f} to {after['gamma_clamped']:.1e}, ρ {before['rho']:.4f} to {after['rho']:.4f}, "
        f"the gradient's own ρ with an absolute step {before['rho_absolute_bp']:.3f} to {number(step)}"
    )
    return Case(text, same and clamped and (math.isnan(step) or abs(step) <= FALLEN))


def rescaled_table(rows: Sequence[dict[str, Any]]) -> str:
    """Every scale, means over seeds."""
    names = ("accuracy", "gradient", "sensitivity", "gamma", "gamma_clamped", "rho", "rho_absolute_bp")
    heads = (
        "accuracy",
        "‖g_L‖/128",
        "sensitivity",
        "exact Γ",
        "clamped Γ",
        "ρ, relative step",
        "ρ of g, absolute step",
    )
    body = []
    for method in measure_units.METHODS:
        for exponent in measure_units.EXPONENTS:
            kept = [row for row in rows if (row["method"], row["exponent"]) == (method, exponent)]
            means = [number(fmean(float(row[name]) for row in kept)) for name in names]
            body.append([method, f"10^{exponent}" if exponent else "1", *means])
    return table(("method", "scale", *heads), body)


# --- depth without retraining ---


@dataclass(frozen=True, slots=True)
class Pair:
    """One setting with both answers about its depth; `records` is its folder."""

    records: str
    row: AuditRow

    @property
    def values(self) -> tuple[float, float]:
        """D3 and D10 in points."""
        return self.row.findings["D3"].value or 0.0, self.row.findings["D10"].value or 0.0

    @property
    def answer(self) -> str:
        """Whether the two decide alike."""
        statuses = {self.row.findings[code].status for code in ("D3", "D10")}
        if statuses == {Status.PASS, Status.FIRES}:
            return "differs"
        return "agrees" if len(statuses) == 1 and statuses <= {Status.PASS, Status.FIRES} else "undecided"


def pairs() -> list[Pair]:
    """Every setting of the committed records that has D3 and D10."""
    found = [Pair(folder.name, row) for folder in gallery.folders() for _, row in gallery.audited(folder)]
    codes = ("D3", "D10")
    return [pair for pair in found if all(_value(pair.row, code) is not None for code in codes)]


def _value(row: AuditRow, code: str) -> float | None:
    return row.findings[code].value if code in row.findings else None


def ordered(found: Sequence[Pair]) -> tuple[int, int]:
    """Of the pairs of methods in one setting whose D3 intervals are apart: how many D10 orders alike, and all."""
    alike = every = 0
    for one, other in combinations(found, 2):
        ends = [pair.row.findings["D3"].interval for pair in (one, other)]
        if _setting(one) != _setting(other) or ends[0] is None or ends[1] is None:
            continue
        if ends[0][0] > ends[1][1] or ends[1][0] > ends[0][1]:
            every += 1
            alike += (one.values[0] > other.values[0]) == (one.values[1] > other.values[1])
    return alike, every


def _setting(pair: Pair) -> tuple[object, ...]:
    spec = pair.row.spec
    return pair.records, spec.network, repr(spec.network_options), spec.data, spec.epochs


def same_side(found: Sequence[Pair]) -> tuple[int, int]:
    """Of all runs: on how many D3 and D10 lie on the same side of their limit, by the number alone."""
    sides = [
        len({seed.findings[code].limit.past(seed.findings[code].value or 0.0) for code in ("D3", "D10")}) == 1
        for pair in found
        for seed in pair.row.seeds
        if all(code in seed.findings and seed.findings[code].value is not None for code in ("D3", "D10"))
    ]
    return sum(sides), len(sides)


def without_retraining(found: Sequence[Pair]) -> Answer:
    """Whether D10 decides and orders as D3 does; open below ten settings."""
    answers, (alike, every), (same, runs) = Counter(pair.answer for pair in found), ordered(found), same_side(found)
    text = (
        f"of {counted(len(found), 'setting')} over seeds both decide alike on {answers['agrees']} and oppositely on "
        f"{answers['differs']}, and on {answers['undecided']} at least one is undecided; of {counted(every, 'pair')} "
        f"of methods whose D3 intervals are apart D10 orders {alike} alike; of {counted(runs, 'run')} both lie on the "
        f"same side of 2 points in {same}"
    )
    holds = not answers["differs"] and every > 0 and alike >= ORDERED * every
    status = ClaimStatus.HOLDS if holds else ClaimStatus.FAILS
    if len(found) < LEAST:
        status = ClaimStatus.UNDECIDED
        text += f" (at least {LEAST} settings are needed)"
    return Answer(status, text)


def depth_table(found: Sequence[Pair]) -> str:
    """D3 and D10 of every setting, by D3."""
    body = [
        [
            gallery.name(pair.row.spec),
            f"`{pair.records}`",
            margin(pair.row.findings["D3"]),
            margin(pair.row.findings["D10"]),
            pair.answer,
            str(len(pair.row.seeds)),
        ]
        for pair in sorted(found, key=lambda pair: -pair.values[0])
    ]
    return table(("setting", "records in `results/`", "D3, points", "D10, points", "verdicts", "seeds"), body)


def picture(found: Sequence[Pair]) -> dict[Path, str]:
    """D10 against D3, one dot for every setting, for either colour scheme."""
    panel = Panel("points over the frozen control", across="D3, by retraining", up="D10, by reading")
    dots = [IdentityDot(panel, pair.row.label, *pair.values, pair.answer, False, "findings.html") for pair in found]
    return {
        IMAGES / f"findings-depth-{scheme}.svg": identity_svg(dots, style) for scheme, style in STYLES.items() if dots
    }


# --- the page ---

LEAD = """Two questions that the audited papers do not ask. `make docs` writes this page from the committed records and
says whether the answer yes holds on them, by a rule that is printed; more findings are on the
[page of the reproduction](reproduction-claims.md)."""
UNITS = f"""With a normalisation before the read-out, a state that is c times as large leaves the loss alone and has a
gradient that is c times as small. So ‖g‖ depends on the units of the state. ‖h‖·‖g‖ does not: it is how far the loss
moves when the state moves by its own size. *Holds* if on every seed of the published DFA (100 and 30 epochs) ‖g_L‖ is
at least 10,000 times smaller than backprop's while ‖h_L‖·‖g_L‖ is not smaller; and if, on three seeds of two methods, a
state that is made 10⁸ times as large moves accuracy, exact Γ, ρ and sensitivity by at most {UNMOVED:.0%} of themselves
while clamped Γ and an absolute step lose at least nine tenths."""
SO = """So D2 says that Γ *as usually computed* is invalid, not that the gradient is gone: exact cosines and steps
relative to the state stay meaningful, and creditscope judges by these. It is not the whole story of every layer: at the
embedding DFA's ‖h‖·‖g‖ is several times smaller than backprop's, which is a loss of influence, not a matter of units.
[Drag the scale](explore.md) of a block to see it."""
DEPTH = f"""D3 trains the network again with frozen blocks: the honest control, at the price of a second training. D10
reads the classes off every state with a linear map and asks what the blocks have added, which takes seconds. *Holds* if
at least {LEAST} settings have both, no setting passes by one and fails by the other, and of the pairs of methods that
D3 tells apart (intervals that do not overlap, same network, data and length) at least {ORDERED:.0%} have the same order
by D10. Records from before version 0.2.0 hold no D10, and their weights were not kept."""


def page(found: Sequence[Pair]) -> str:
    """The whole page."""
    archive = reproduction.archives()["reproduction"]
    rows = json.loads(measure_units.RESULT.read_text(encoding="utf-8"))["rows"]
    records, scaled, depth = collapse_is_of_units.ask(archive), rescaling(rows), without_retraining(found)
    sensitivity = pictures.sensitivity()
    parts = [
        "# Two experiments of ours",
        LEAD,
        "## Is the collapse one of units?",
        _answers(("On the records of the reproduction", records), ("On a rescaled state", scaled)),
        UNITS,
        pictures.shown(sensitivity),
        "‖h‖·‖g‖ on CIFAR-10 after 30 epochs, means over seeds:",
        sensitivities(),
        "The deepest state rescaled (`results/units.json`, `make units`; MNIST-1D, means over three seeds; "
        f"penalty {measure_units.METHODS['dfa']:g} for DFA):",
        rescaled_table(rows),
        SO,
        "## Can depth be judged without retraining?",
        _answers((f"On {counted(len(found), 'setting')} with D3 and D10", depth)),
        DEPTH,
        _depth_picture(found, depth),
        depth_table(found),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _answers(*answers: tuple[str, Answer]) -> str:
    lines = "\n".join(f"- {where}: **{answer.status}**." for where, answer in answers)
    cases = "\n".join(f"- {escaped(case)}" for _, answer in answers for case in answer.because.split("; "))
    return f"{lines}\n\n<details><summary>Case by case</summary>\n\n{cases}\n\n</details>"


def _depth_picture(found: Sequence[Pair], depth: Answer) -> str:
    if not found:
        return ""
    about = f"one dot for every setting with both (n = {len(found)})"
    caption = f"D10 against D3, {about}. That D10 can replace D3: {depth.status}."
    return "\n\n".join(
        f"```{{figure}} images/findings-depth-{scheme}.svg\n:class: only-{scheme}\n:figclass: only-{scheme}\n"
        f":align: left\n:alt: D10 against D3\n\n{caption}\n```"
        for scheme in STYLES
    )


if __name__ == "__main__":
    every = pairs()
    for path, text in ({PAGE: page(every)} | picture(every)).items():
        print(write_text(path, text).relative_to(ROOT))
