"""Writes the table of docs/gallery.md, and docs/gallery-cards.md: claimed against audited, from the records."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Literal, get_args

from docs.generate import reproduction
from docs.generate.field import RESULTS, ROOT, accuracy, breakable, cost, filled, margin, table

from creditscope.auditing.receipt import judged_together, received
from creditscope.files import write_text
from creditscope.papers.archive import RECORDS
from creditscope.papers.rendering import published
from creditscope.papers.tables import comparison_tables
from creditscope.protocols import DEFAULT
from creditscope.records.folder import KEY
from creditscope.records.labels import counted, named, written
from creditscope.records.report import SHOWN_HASH
from creditscope.records.run import RunRecord
from creditscope.records.submission import Submission
from creditscope.report.markdown import escaped
from creditscope.report.numbers import ABSENT, per_cent
from creditscope.runs.spec import RunSpec, read_spec
from creditscope.study.tables import AuditRow, table_of
from creditscope.verdict import Finding, Reason, Verdict

PAGE, CARDS = ROOT / "docs" / "gallery.md", ROOT / "docs" / "gallery-cards.md"
LINE = 42  # letters of a cell
SUBMISSIONS = RESULTS / "gallery"
MARKS = ("<!-- gallery: make docs writes this table -->\n", "<!-- end of the gallery -->")
HEAD = (
    *("method", "setting", "data", "claimed accuracy", "claimed Γ", "accuracy", "verdict", "margin", "D10", "cost"),
    *("seeds", "paper", "protocol"),
)


Kind = Literal["accuracy", "Γ"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A published number of the paper's own unit, as text, and what it is; `paper` links to the page of the paper."""

    paper: str
    text: str
    quantity: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One method in one setting: what is claimed, what the audit says, and the files behind it. Texts are Markdown.

    records   links to the records, by seed
    notes     what the card adds
    """

    method: str
    network: str
    epochs: int | None
    data: str
    paper: str
    claimed: Mapping[Kind, Claim]
    accuracy: str
    control: str
    findings: Mapping[str, Finding]
    verdict: Verdict
    protocol: str
    cost: str
    seeds: int
    records: Sequence[str]
    notes: Sequence[str] = ()

    @property
    def setting(self) -> str:
        """The network with what is unusual about its recipe, and how long it was trained, where that is known."""
        return self.network if self.epochs is None else f"{self.network}, {counted(self.epochs, 'epoch')}"

    @property
    def title(self) -> str:
        """The heading of its card."""
        return f"{self.method} on {self.data}, {self.setting}, protocol {self.protocol}"


# --- rows of our own records ---


def claims() -> dict[tuple[str, str], Claim]:
    """Published accuracy and alignment by the key of a run, after as many epochs as it had where that was published.

    A table that borrows other figures is left out.
    """
    as_long: dict[tuple[str, str], Claim] = {}
    others: dict[tuple[str, str], Claim] = {}
    for page, archive in reproduction.archives().items():
        paper = archive.paper
        for made in comparison_tables(archive):
            epochs = paper.published.training(made.experiment).epochs
            for row in made.rows if made.experiment in paper.published.figures else ():
                for kind, names in (("accuracy", paper.accuracies), ("Γ", paper.alignments)):
                    if row.quantity in names and row.published is not None:
                        equal = row.early or epochs is None or row.epochs == epochs
                        unit = "°" if row.kind == "degrees" else ""
                        length = "" if equal else f" after {counted(epochs, 'epoch')}"
                        text = f"{escaped(published(row.published, row.kind))}{unit}{length}"
                        for key in row.keys:
                            place = as_long if equal else others
                            place.setdefault((key, kind), Claim(f"[{paper.name}]({page}.md)", text, row.heading))
    return others | as_long


def folders(results: Path = RESULTS) -> list[Path]:
    """Every folder with records of runs."""
    return sorted({path.parent for path in results.rglob("*.json") if KEY.fullmatch(path.stem)} - {SUBMISSIONS})


def audited(folder: Path) -> Iterator[tuple[str, AuditRow]]:
    """Every trained setting of a folder, over its seeds, judged by the protocol that its records were made with."""
    paths = (path for path in sorted(folder.glob("*.json")) if KEY.fullmatch(path.stem))
    records = {record.key: record for record in map(RunRecord.from_json, paths)}
    protocols = {key: record.report.protocol for key, record in records.items() if record.report is not None}
    for protocol in sorted(set(protocols.values())):
        own = {key: record for key, record in records.items() if protocols.get(key) == protocol}
        specs = {key: read_spec(record, key) for key, record in own.items()}
        yield from ((protocol, row) for row in table_of(specs, own, protocol) if row.verdict and row.spec.epochs)


def rows_of(folder: Path, claimed: Mapping[tuple[str, str], Claim]) -> Iterator[Row]:
    """The settings of a folder that have a frozen control or a published number beside them, or no blocks to freeze."""
    for protocol, row in audited(folder):
        keys = [seed.key for seed in row.seeds]
        beside = {kind: claimed[key, kind] for key in keys for kind in get_args(Kind) if (key, kind) in claimed}
        if row.control is not None or beside or row.findings["D3"].reason is Reason.NOT_APPLICABLE:
            yield _row(row, protocol, folder, beside)


def name(spec: RunSpec) -> str:
    """A setting as its rows are called: method, data, network with what is unusual about its recipe, length."""
    settings = spec.settings()
    return f"{_method(spec)} on {escaped(named(settings, 'data'))}, {_network(spec)}, {counted(spec.epochs, 'epoch')}"


def _method(spec: RunSpec) -> str:
    penalty = f" + penalty {written(spec.penalty)}" if spec.penalty else ""
    return escaped(named(spec.settings(), "method") + penalty)


def _network(spec: RunSpec) -> str:
    return escaped(named(spec.settings(), "network") + _unusual(spec))


def _row(row: AuditRow, protocol: str, folder: Path, beside: Mapping[Kind, Claim]) -> Row:
    assert row.verdict is not None  # noqa: S101  rows without one were left out
    place = f"../{folder.relative_to(ROOT).as_posix()}"
    seeds = sorted(row.seeds, key=lambda seed: seed.seed)
    controls = [f"[{seed.seed}]({place}/{seed.control_key}.json)" for seed in seeds if seed.control_key]
    notes = [f"Of the frozen controls: {', '.join(controls)}."] if controls else []
    return Row(
        method=_method(row.spec),
        network=_network(row.spec),
        epochs=row.spec.epochs,
        data=escaped(named(row.spec.settings(), "data")),
        paper=next((claim.paper for claim in beside.values()), ABSENT),
        claimed=beside,
        accuracy=accuracy(row),
        control=accuracy(row, control=True),
        findings=row.findings,
        verdict=row.verdict,
        protocol=protocol,
        cost=_cost(row.spec),
        seeds=len(row.seeds),
        records=[f"[{seed.seed}]({place}/{seed.key}.json)" for seed in seeds],
        notes=notes,
    )


def _cost(spec: RunSpec) -> str:
    """The cost of a step without a penalty."""
    return ABSENT if spec.penalty else cost(spec)


def _unusual(spec: RunSpec) -> str:
    """Parts of the recipe that are not the default ones, where two rows could differ by them alone."""
    plain = RunSpec()
    names = ("learning_rate", "weight_decay", "optimiser", "loss")
    parts = [f"{name} {written(getattr(spec, name))}" for name in names if getattr(spec, name) != getattr(plain, name)]
    return "".join(f", {part}" for part in [*parts, *(["random labels"] if spec.random_labels else [])])


# --- rows that others submitted ---


def submitted(folder: Path = SUBMISSIONS) -> list[Row]:
    """The submissions of a folder; one that is refused stops the page."""
    return [_submitted(path, received(path)) for path in sorted(folder.glob("*.json"))]


def _submitted(path: Path, submission: Submission) -> Row:
    findings, verdict = judged_together(submission.reports)
    trained = [share for report in submission.reports for share in report.accuracy or ()]
    controls = [share for report in submission.reports for share in report.control_accuracy or ()]
    claim = submission.claim
    claimed: dict[Kind, Claim] = {}
    if claim is not None and claim.accuracy is not None:
        claimed["accuracy"] = Claim("submitted", per_cent((claim.accuracy,)))
    if claim is not None and claim.gamma is not None:
        claimed["Γ"] = Claim("submitted", f"{claim.gamma:.2f}")
    hashes = ", ".join(f"`{report.content_hash[:SHOWN_HASH]}`" for report in submission.reports)
    versions = ", ".join(sorted({report.provenance.creditscope for report in submission.reports}))
    notes = [f"Submitted by others; content hashes {hashes}, written by creditscope {escaped(versions)}."]
    if claim is not None:
        notes.append(f"Claimed in: {escaped(claim.paper)}.")
    if submission.source is not None:
        notes.append(f"Source: <{submission.source}>.")
    return Row(
        method=escaped(submission.method),
        network=escaped(submission.network),
        epochs=None,
        data=escaped(submission.data),
        paper=ABSENT if claim is None else "submitted",
        claimed=claimed,
        accuracy=f"{100 * fmean(trained):.1f}",
        control=f"{100 * fmean(controls):.1f}" if controls else ABSENT,
        findings=findings,
        verdict=verdict,
        protocol=DEFAULT,
        cost=ABSENT,
        seeds=len(trained),
        records=[f"[file]({_from_docs(path)})"],
        notes=notes,
    )


def _from_docs(path: Path) -> str:
    return f"../{path.relative_to(ROOT).as_posix()}" if path.is_relative_to(ROOT) else path.name


# --- the pages ---


def rows() -> list[Row]:
    """Every row: by paper, data, network and length, the longest first, then by accuracy."""
    claimed = claims()
    made = [row for folder in folders() for row in rows_of(folder, claimed if folder.name == RECORDS else {})]
    made += submitted()
    return sorted(made, key=_place)


def _place(row: Row) -> tuple[object, ...]:
    return row.paper == ABSENT, row.paper, row.data, row.network, -(row.epochs or 0), -_first(row.accuracy)


def _first(text: str) -> float:
    return float(match[0]) if (match := re.match(r"[\d.]+", text)) else -1.0


def anchors(made: Sequence[Row]) -> list[str]:
    """The names of the cards' headings, as Markdown gives them; one that comes twice has a number."""
    seen: Counter[str] = Counter()
    names = []
    for row in made:
        plain = re.sub(r"[^\w\s-]", "", row.title.replace("\\", "").lower())
        name = re.sub(r"\s", "-", plain)
        names.append(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return names


def page(made: Sequence[Row]) -> str:
    """The page with its table written again; what stands around it is written by hand."""
    return filled(PAGE.read_text(encoding="utf-8"), MARKS, f"{_summary(made)}\n\n{TOOLS}\n\n{grid(made)}")


def grid(made: Sequence[Row]) -> str:
    """The table that the script sorts and filters."""
    body = [
        (
            f"[{_short(row.method)}](gallery-cards.md#{anchor})",
            _short(row.setting),
            _short(row.data),
            *(row.claimed[kind].text if kind in row.claimed else ABSENT for kind in get_args(Kind)),
            row.accuracy,
            breakable(row.verdict),
            margin(row.findings.get("D3")),
            margin(row.findings.get("D10")),
            row.cost,
            f"{row.seeds}: {' '.join(row.records)}",
            row.paper,
            f"`{row.protocol}`",
        )
        for row, anchor in zip(made, anchors(made), strict=True)
    ]
    return "```{table}\n:class: sortable\n\n" + table(HEAD, body) + "\n```"


def _short(text: str) -> str:
    """A name for the table: parts of a recipe, then options, that take more than a line stand on the card alone."""
    options = re.match(r"[^(,]*\(.*?\)", text)
    first, *rest = text[options.end() :].split(", ") if options else text.split(", ")
    head = options[0] + first if options else first
    bare = re.sub(r"\(.*?\)", "(…)", head)
    ends = ["…", *rest[-1:]] if len(rest) > 1 else rest
    forms = [text, ", ".join([head, *ends]), ", ".join([bare, *rest]), ", ".join([bare, *ends])]
    return next((form for form in forms if len(form) <= LINE), forms[-1])


def _summary(made: Sequence[Row]) -> str:
    counts = Counter(row.verdict.outcome for row in made)
    with_claim = [row for row in made if row.claimed]
    failed = sum(row.verdict.outcome == "fail" for row in with_claim)
    settings = len({(row.setting, row.data) for row in made})
    return (
        f"**{counted(len(made), 'row')}** in {counted(settings, 'setting')}: {counts['pass']} pass, {counts['fail']} "
        f"fail, {counts['inconclusive']} inconclusive. {counted(len(with_claim), 'row')} "
        f"{'has' if len(with_claim) == 1 else 'have'} a published number beside ours; the audit rejects {failed} of "
        f"these."
    )


def cards(made: Sequence[Row]) -> str:
    """The claim card of every row, with the records behind it."""
    parts = ["# Claim cards", CARDS_LEAD]
    for row in made:
        claimed = ", ".join(_claimed(kind, claim) for kind, claim in row.claimed.items()) or "nothing published"
        source = "" if row.paper == ABSENT else f" ({row.paper})"
        lines = [
            f"**claimed** {claimed}{source}",
            f"**audited** {', '.join(_numbers(row))}",
            f"**{escaped(str(row.verdict))}** by protocol `{row.protocol}`. {escaped(row.verdict.why)}",
            *(f"Warning: {escaped(warning)}" for warning in row.verdict.warnings),
            f"Records by seed: {', '.join(row.records)}. {' '.join(row.notes)}".rstrip(),
        ]
        parts += [f"## {row.title}", "\n".join(f"- {line}" for line in lines)]
    return "\n\n".join(parts) + "\n"


def _claimed(kind: Kind, claim: Claim) -> str:
    """A claim with what exactly was published."""
    quantity = f" ({escaped(claim.quantity)})" if claim.quantity not in ("", kind) else ""
    return f"{kind} {claim.text}{quantity}"


def _numbers(row: Row) -> Iterator[str]:
    yield f"accuracy {row.accuracy} %"
    if row.control != ABSENT:
        yield f"frozen control {row.control} %"
    for code, word in (("D3", "margin"), ("D10", "D10")):
        if (text := margin(row.findings.get(code))) != ABSENT:
            yield f"{word} {text} points"


CARDS_LEAD = """One card for every row of the [gallery](gallery.md): what is claimed, what the audit says and why, and
the files behind it."""
TOOLS = """```{raw} html
<script defer src="../_static/gallery.js"></script>
<link rel="stylesheet" href="../_static/gallery.css">
<p id="gallery-tools" hidden><label>Show rows with <input id="gallery-filter" type="search"></label>
<output id="gallery-count" aria-live="polite"></output></p>
```"""


if __name__ == "__main__":
    every = rows()
    for path, text in ((PAGE, page(every)), (CARDS, cards(every))):
        print(write_text(path, text).relative_to(ROOT))
