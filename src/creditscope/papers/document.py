"""The page on the reproduction: what holds, what does not, what differs; written from records alone."""

from __future__ import annotations

from collections.abc import Sequence

from creditscope.diagnostics import diagnostics
from creditscope.papers.book import PAPER, Book
from creditscope.papers.claims import Answer, Claim, Standing
from creditscope.papers.comparison import TOLERANCE, Kind, Outcome, welch_of
from creditscope.papers.experiments import sheets
from creditscope.papers.findings import FINDINGS
from creditscope.papers.page import links
from creditscope.papers.published import published
from creditscope.papers.reasons import reason
from creditscope.papers.sheet import Sheet, figure
from creditscope.papers.statements import STATEMENTS
from creditscope.papers.words import difference, ours, theirs
from creditscope.report.markdown import escaped
from creditscope.report.markdown import table as markdown_table
from creditscope.study.tables import AuditRow, SeedRow
from creditscope.verdict import Measurement, Status

RECORDS, TABLES = "../results/records", "../results/tables"
BESIDE: tuple[tuple[str, Kind], ...] = (("accuracy", "share"), ("flags", "flags"))
OPENING = """# The published audit, reproduced

Written by `make docs` from the records under `results/`. Nothing here is typed by hand but the reasons, which are shown
only where a number differs. `creditscope reproduce` runs an experiment or goes on with it, and writes its table;
`creditscope reproduce --list` shows how far each one is.

Source of the published figures: {source}.

Words: Γ is the cosine between credit and gradient, "deep" its mean over layers 1 to L, an "exact" layer one whose
credit is the gradient by construction; ρ correlates credit with changes of the loss. The published flags are (a) scale,
our D1, (b) reference, our D2, (c) drift, our D4, and (d) depth, our D3; a method is walked back when a flag is raised.
A record alone is judged without D3: here a run stands beside its frozen twin, where that was run. Verdicts are those of
profile `three`, in which drift is advisory. A block of our DFA hears the credit of its output (index = "output") unless
the row says otherwise; the published one hears that of its input.
[Diagnostics](diagnostics/index.md), [credit](credit.md), [methods and their options](methods.md)."""
RULES = f"""How two numbers are compared. Where both sides have a spread over seeds: Welch's t at 95 %, so that about
one row in twenty differs by chance. Where one side has one: the other is read as a mean of as many draws with the same
spread. Where neither has: within {100 * TOLERANCE["share"]:g} points for accuracies, {TOLERANCE["cosine"]:g} for
cosines, {TOLERANCE["scale"]:g} decades for scales. What the spreads do not tell apart, but lies farther off than that,
is undecided: few seeds are no agreement. Norms and growth are compared as logarithms; of a published range the nearest
point counts, and a figure without a spread is known to its last digit only. Our runs are shorter than the published
ones where the table says so, and a difference may be nothing but that."""


def document(book: Book) -> str:
    """The whole page."""
    tables = list(sheets(book))
    answered = [(claim, claim.ask(book)) for claim in STATEMENTS]
    found = [(claim, claim.ask(book)) for claim in FINDINGS]
    parts = [
        OPENING.format(source=published().source),
        "## What was claimed",
        _claims(answered),
        "## What we found besides",
        *_findings(found),
        "## The main audit, judged by us",
        _verdicts(book.table("main_audit")),
        _at_length(Book(book.store, PAPER)),
        "\n".join(part for part in (_other_flags(tables), _drifting(book), _ep_as_published()) if part),
        "## The experiments",
        RULES,
        _overview(tables),
        "## What differs, and the likeliest reason",
        _differences(tables),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _claims(answered: Sequence[tuple[Claim, Answer]]) -> str:
    rows = [
        (
            escaped(claim.statement),
            f"**{answer.standing}**",
            escaped(answer.because),
            f"[{claim.experiment}]({TABLES}/{claim.experiment}.md)",
            links(answer.keys, RECORDS),
        )
        for claim, answer in answered
    ]
    return markdown_table(("claim", "our records say", "because", "experiment", "runs"), rows)


def _findings(found: Sequence[tuple[Claim, Answer]]) -> list[str]:
    """Those that hold; the others are named as what they are."""
    holding = [pair for pair in found if pair[1].standing is Standing.HOLDS]
    rest = [pair for pair in found if pair[1].standing is not Standing.HOLDS]
    parts = [_claims(holding)] if holding else ["None of our expectations is confirmed yet."]
    if rest:
        parts += ["Looked for, and not confirmed by the records that are there:", _claims(rest)]
    return parts


def _verdicts(rows: Sequence[AuditRow]) -> str:
    """Accuracy, frozen twin and verdict of every method, over the seeds that were run."""
    body = []
    for row in rows:
        if row.spec.control != "none" or row.accuracy is None or row.verdict is None:
            continue
        depth = row.findings.get("D3")
        pairs = [seed for seed in row.seeds if seed.control_key]
        alone = "" if len(pairs) == len(row.seeds) else f" ({len(pairs)} of {len(row.seeds)} seeds)"
        margin = "" if depth is None or depth.value is None else f"{depth.value:+.1f}{alone}"
        control = "-" if row.control is None else f"{100 * row.control.mean:.1f} %"
        body.append(
            (
                escaped(row.label),
                f"{100 * row.accuracy.mean:.1f} %",
                control,
                margin,
                "; ".join(f"{seed.seed}: {escaped(str(seed.verdict))}" for seed in row.seeds),
                f"**{escaped(str(row.verdict))}**" + (" (one seed)" if len(pairs or row.seeds) == 1 else ""),
                *(escaped(theirs(figure("main_audit", _published_row(row), name), kind)) for name, kind in BESIDE),
                links(tuple(key for seed in row.seeds for key in (seed.key, seed.control_key) if key), RECORDS),
            )
        )
    heads = ("method", "accuracy", "frozen twin", "D3, points", "each seed", "over seeds")
    return markdown_table((*heads, "published accuracy", "published flags", "runs"), body)


def _at_length(paper: Book) -> str:
    """The same of what was trained as long as published; nothing if no run was."""
    rows = [row for row in paper.table("main_audit") if row.accuracy is not None]
    return f"Trained as long as published, {rows[0].spec.epochs} epochs:\n\n{_verdicts(rows)}" if rows else ""


def _published_row(row: AuditRow) -> str:
    """DFA was published with index = input."""
    method, index = row.spec.method, row.spec.method_options.get("index", "output")
    return f"dfa, index {index}" if method == "dfa" else method


def _other_flags(tables: Sequence[Sheet]) -> str:
    """A sentence for every method whose flags are not the published ones."""
    return "\n".join(
        f"- {escaped(line.row)}: of {escaped(line.heading)} ours raises {escaped(ours(line))}, published "
        f"{escaped(theirs(line.published, line.kind))}. "
        f"{escaped(reason(one, line))}"
        for one in tables
        if one.stem == "main_audit"
        for line in one.lines
        if line.quantity == "flags" and line.outcome is Outcome.DIFFERS
    )


def _drifting(book: Book) -> str:
    """A sentence on the methods whose drift fires: four flags, as published, walk these back too."""
    rows = [row for row in book.table("main_audit") if row.spec.control == "none"]
    seeds = {row.label: [str(seed.seed) for seed in row.seeds if _drifts(seed)] for row in rows}
    told = "; ".join(f"{escaped(name)} on {', '.join(found)}" for name, found in seeds.items() if found)
    return f"- Flag (c), drift, which the verdicts above only advise of: {told}." if told else ""


def _drifts(seed: SeedRow) -> bool:
    return "D4" in seed.findings and seed.findings["D4"].status is Status.FIRES


def _ep_as_published() -> str:
    """The published EP against the published frozen control, which it was never held against."""
    accuracy, control = (figure("main_audit", row, "accuracy") for row in ("ep", "dfa, frozen"))
    if accuracy is None or control is None or accuracy.mean is None or control.mean is None:
        return ""
    margin, ends = 100 * (accuracy.mean - control.mean), welch_of(accuracy, control)
    limit = diagnostics["D3"].limit
    point = "fires" if limit.judge(Measurement(margin)) is Status.FIRES else "is silent"
    return (
        f"- ep: as published it was never held against a frozen control. {theirs(accuracy, 'share')} against "
        f"{theirs(control, 'share')}, a control whose method is not named, is {margin:+.1f} points: by the point rule "
        f"D3 {point}, by Welch's interval ({100 * ends[0]:+.1f} to {100 * ends[1]:+.1f}) it is "
        f"{_by_interval(ends, limit.at)}."
    )


def _by_interval(ends: tuple[float, float], at: float) -> str:
    """What D3 says of an interval of accuracies against a limit in points."""
    return "pass" if 100 * ends[0] > at else "firing" if 100 * ends[1] < at else "undecided"


def _overview(tables: Sequence[Sheet]) -> str:
    rows = []
    for one in tables:
        counts = [str(sum(line.outcome is outcome for line in one.lines)) for outcome in Outcome]
        name = f"[{escaped(one.stem)}]({TABLES}/{one.stem}.md)"
        rows.append((str(one.number), name, escaped(one.title), escaped(one.ours), escaped(one.theirs or "-"), *counts))
    heads = ("", "experiment", "question", "ours", "published", *(str(outcome) for outcome in Outcome))
    return markdown_table(heads, rows)


def _differences(tables: Sequence[Sheet]) -> str:
    rows = [
        (
            f"[{escaped(one.stem)}]({TABLES}/{one.stem}.md)",
            escaped(line.row),
            escaped(line.heading),
            escaped(ours(line)),
            escaped(theirs(line.published, line.kind)),
            escaped(difference(line)),
            escaped(reason(one, line)),
            links((*line.keys, *line.twins), RECORDS),
        )
        for one in tables
        if one.experiment in published().figures  # else its figures are those of other experiments
        for line in one.lines
        if line.outcome is Outcome.DIFFERS
    ]
    if not rows:
        return "Nothing that was run differs."
    heads = ("experiment", "row", "quantity", "ours", "published", "difference", "likeliest reason", "runs")
    told = "The rates that learning_rate tries are not listed: their figures are those of the experiments below."
    return f"{escaped(told)}\n\n{markdown_table(heads, rows)}"
