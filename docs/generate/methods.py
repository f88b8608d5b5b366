"""Writes one page per credit rule, and the tables of rules on docs/methods.md and docs/performance.md.

Words are those that `creditscope explain NAME` prints, costs those of results/method_costs.json, cards those of the
records in results/field/.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from docs.generate.field import (
    COSTS,
    STUDIES,
    Field,
    accuracy,
    alignment,
    alignment_text,
    breakable,
    costs,
    field,
    filled,
    margin,
    measured,
    table,
    value,
)

from creditscope.files import write_text
from creditscope.glossary.explanation import of_method
from creditscope.methods import __name__ as PACKAGE
from creditscope.methods import methods
from creditscope.methods.rule import CreditRule
from creditscope.options import options_of
from creditscope.protocols import DEFAULT
from creditscope.records.labels import counted, written
from creditscope.records.run import RunRecord
from creditscope.report.numbers import ABSENT
from creditscope.study.tables import AuditRow, SeedRow
from creditscope.verdict import Finding, Status

DOCS = Path(__file__).resolve().parents[1]
FOLDER = DOCS / "methods"
RULES = ("<!-- rules: make docs writes this table -->\n", "<!-- end of the rules -->")
STEPS = ("<!-- steps: make docs writes this table -->\n", "<!-- end of the steps -->")
# Where docs/methods.md says more about a rule.
SECTIONS = {
    "ep": "equilibrium-propagation",
    "state_bridge": "the-bridges",
    "credit_bridge": "the-bridges",
    "predictive_coding": "predictive-coding",
    "target_prop": "target-propagation",
    "forward_forward": "forward-forward-and-pepita",
    "pepita": "forward-forward-and-pepita",
}
LOOP = "loss = rule.backward(inputs, labels)   # fills .grad of every parameter, like loss.backward()"
FEEDBACK_ANGLE = "feedback_angle"
PITFALLS = {"kolen_pollack": "14-feedback-without-decay.md"}


def own() -> dict[str, type[CreditRule]]:
    """The rules of this package; plugins have no page here."""
    return {name: rule for name, rule in methods.items() if rule.__module__.startswith(f"{PACKAGE}.")}


def files(fields: Sequence[Field]) -> dict[Path, str]:
    """Every file with its content."""
    overview, performance = DOCS / "methods.md", DOCS / "performance.md"
    return {
        **{FOLDER / f"{name}.md": page(rule, fields) for name, rule in own().items()},
        overview: filled(overview.read_text(encoding="utf-8"), RULES, rules()),
        performance: filled(performance.read_text(encoding="utf-8"), STEPS, steps()),
    }


# --- one page ---


def page(rule: type[CreditRule], fields: Sequence[Field]) -> str:
    """The page of one rule."""
    told = of_method(rule)
    parts = [f"# {rule.name}", rule.summary]
    for heading, text in told.sections.items():
        body = _identities(rule) if heading == "What a test proves" else _section(heading, text)
        parts += [f"## {heading}", body] if heading != "Options" else []
    parts += ["## How to use it", _use(rule), _options(rule)]
    parts += ["## Cost", _cost(rule), "## Measured card", *_cards(rule, fields)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(heading: str, text: str) -> str:
    if heading == "Formula":
        return "```text\n" + "\n".join(text.replace(";  ", ",  ").split(",  ")) + "\n```"
    ended = text if text.endswith(".") else f"{text}."
    return ended[:1].upper() + ended[1:] if heading in ("Compared with", "Networks", "When it fails") else ended


def _identities(rule: type[CreditRule]) -> str:
    return "\n".join(f"- {statement}: `{test}`" for statement, test in rule.identities.items())


def _use(rule: type[CreditRule]) -> str:
    """On the command line, and in a loop of one's own where the rule binds to any model."""
    network = f" --network {rule.networks[0]}" if rule.networks is not None and "resmlp" not in rule.networks else ""
    command = f"```\ncreditscope train --method {rule.name}{network} --controls frozen   # on MNIST-1D, audited\n```"
    optimizer = ", optimizer=optimizer" if rule.follows_weights else ""  # its feedback steps with the weights
    lines = (f'rule = creditscope.rule("{rule.name}", model, example=batch{optimizer})', LOOP)
    loop = "\n".join(("```python", *lines, "```"))
    where = "" if network else f"In your own loop, on your own model ([guide](../guides/train-by-dfa.md)):\n\n{loop}"
    return "\n\n".join(part for part in (command, where) if part)


def _options(rule: type[CreditRule]) -> str:
    options = options_of("method", rule)
    if not options:
        return "It has no options."
    listed = ", ".join(f"`{name} = {written(default)}`" for name, default in options.items())
    more = f" Its choices: [methods](../methods.md#{SECTIONS[rule.name]})." if rule.name in SECTIONS else ""
    pitfall = f" Its [pitfall](../pitfalls/{PITFALLS[rule.name]})." if rule.name in PITFALLS else ""
    return f"Options with their defaults: {listed} ([meaning](../methods.md#options)).{more}{pitfall}"


def _cost(rule: type[CreditRule]) -> str:
    """The measured steps of the rule, with its limit where it has one."""
    if rule.name == "bp":
        return "A training step of backprop is the unit in which the cost of the others is measured."
    lines = []
    for step in costs():
        if step["name"] == rule.name:
            given = ", ".join(f"{name} = {written(option)}" for name, option in step["options"].items())
            label = f" with `{given}`" if given else ""
            limit = "" if step["ceiling"] is None else f" (our limit: {step['ceiling']:.2f})"
            lines.append(f"A training step costs {step['measured']:.2f} steps of backprop{label}{limit}.")
    setting = f"Measured on `{_networks(rule.name)}` ([how](../performance.md#a-step-of-every-rule))."
    return " ".join([*lines, setting])


def _networks(name: str) -> str:
    return next(str(step["network"]) for step in costs() if step["name"] == name)


# --- its measured card ---


def _cards(rule: type[CreditRule], fields: Sequence[Field]) -> list[str]:
    parts = [
        f"From the records of the field's studies, under protocol `{DEFAULT}`. All methods side by side, and how to "
        "read the numbers: [the field](../field.md)."
    ]
    absent = []
    for found in fields:
        for row in (row for row in found.trained if row.spec.method == rule.name):
            if row.verdict is None:
                absent.append(f"{found.name(row.spec)} (`studies/{found.study.name}.toml`)")
            else:
                parts += [f"### {found.name(row.spec)} on {row.spec.data}", card(found, row)]
    return [*parts, f"No record yet: {', '.join(absent)}."] if absent else parts


def card(found: Field, row: AuditRow) -> str:
    """Accuracy, control, margin, verdict, Γ and three diagnostics, for each seed and over all of them."""
    head = ["", *(f"seed {seed.seed}" for seed in row.seeds), "all seeds"]
    records = {seed.key: found.records[seed.key] for seed in row.seeds}
    lines = [
        ["accuracy", *(f"{100 * seed.accuracy:.1f}" for seed in row.seeds), accuracy(row)],
        ["frozen control", *map(_control, row.seeds), accuracy(row, control=True)],
        ["margin (D3)", *(margin(seed.findings.get("D3")) for seed in row.seeds), margin(row.findings.get("D3"))],
        ["verdict", *(breakable(seed.verdict) for seed in row.seeds), breakable(row.verdict)],
        _alignment("Γ by layer", list(records.values())),
    ]
    if any(alignment([record], "_own")[1] for record in records.values()):
        lines.append(_alignment("with its own reference", list(records.values()), "_own"))
    if any(measured([record], FEEDBACK_ANGLE) for record in records.values()):
        groups = [*([record] for record in records.values()), list(records.values())]
        lines.append(["angle of B to Wᵀ", *(f"{median(measured(group, FEEDBACK_ANGLE)):.0f}°" for group in groups)])
    for code in ("D1", "D2", "D10"):
        seeds = _values([seed.findings.get(code) for seed in row.seeds])
        lines.append([f"[{code}](../diagnostics/{code}.md)", *seeds, value(row.findings.get(code))])
    said = f"`studies/{found.study.name}.toml`: `{row.spec.network}`, {counted(row.spec.epochs, 'epoch')}."
    why, warnings = ("", ()) if row.verdict is None else (f" {row.verdict.why}", row.verdict.warnings)
    columns = None if len(row.seeds) > 1 else -1  # one seed alone is all seeds
    shown = table(head[:columns], [line[:columns] for line in lines])
    return "\n\n".join([f"{said}{why}", shown, *(f"Warning: {warning}" for warning in warnings)])


def _alignment(label: str, records: Sequence[RunRecord], suffix: str = "") -> list[str]:
    """Γ of every layer, for each seed and as a median over them."""
    groups = [*([record] for record in records), records]
    return [label, *(alignment_text(group, whole=True, suffix=suffix) for group in groups)]


def _values(findings: Sequence[Finding | None]) -> list[str]:
    """The numbers of a diagnostic on every seed, with its causes where seeds differ in them."""
    causes = [finding.cause if finding is not None and finding.status is Status.FIRES else "" for finding in findings]
    differ = len(set(filter(None, causes))) > 1
    named = [f" ({cause})" if cause and differ else "" for cause in causes]
    return [f"{value(finding)}{cause}" for finding, cause in zip(findings, named, strict=True)]


def _control(seed: SeedRow) -> str:
    return ABSENT if seed.control_accuracy is None else f"{100 * seed.control_accuracy:.1f}"


# --- the tables of all rules ---


def rules() -> str:
    """Every rule with its formula, networks and cost."""
    cost_of = {step["name"]: f"{step['measured']:.2f}" for step in costs() if not step["options"]}
    lines = []
    for name, rule in own().items():
        networks = "all" if rule.networks is None else ", ".join(f"`{network}`" for network in rule.networks)
        normalisation = options_of("method", rule).get("normalisation", "")
        shown = f"`{normalisation}`" if normalisation else ""
        lines.append([f"[`{name}`](methods/{name}.md)", rule.summary, shown, networks, cost_of[name]])
    return table(["name", "what it does", "normalisation", "networks", "BP steps"], lines)


def steps() -> str:
    """The cost of a step of every rule, cheapest first, and where a limit was missed."""
    measured = json.loads(COSTS.read_text(encoding="utf-8"))
    lines = []
    for step in sorted(measured["steps"], key=lambda step: float(step["measured"])):
        given = "".join(f", `{name} = {written(option)}`" for name, option in step["options"].items())
        ceiling = step["ceiling"]
        missed = ceiling is not None and step["measured"] > ceiling
        limit = "" if ceiling is None else f"{ceiling:.2f}, **missed**" if missed else f"{ceiling:.2f}"
        lines.append([f"`{step['name']}`{given}", f"`{step['network']}`", f"{step['measured']:.2f}", limit])
    setting = measured["setting"]
    said = (
        f"Batch {setting['batch']} of {setting['inputs']:,} inputs, one thread, process time, at a load of "
        f"{measured['load']} on {setting['cores']} cores, torch {setting['torch']}:"
    )
    return f"{said}\n\n{table(['rule', 'network', 'BP steps', 'at most'], lines)}"


if __name__ == "__main__":
    for path, text in files([field(name) for name in STUDIES]).items():
        print(write_text(path, text).relative_to(DOCS.parent))
