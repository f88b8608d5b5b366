"""What is checked when a submission to the gallery is received, and the one verdict over its reports.

Whatever the gallery shows of a submission is computed here from its numbers. Its own sentences are dropped, and the few
names that are shown are one line of limited length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from creditscope import __version__
from creditscope.auditing.verification import Verification, verify, verify_document
from creditscope.diagnostics import diagnostics, in_current_words, registered_name
from creditscope.diagnostics.depth import from_accuracies
from creditscope.diagnostics.seeds import over_seeds
from creditscope.errors import BadFile, InvalidInput
from creditscope.protocols import DEFAULT, judge, protocol_named
from creditscope.provenance import GuardStatus
from creditscope.reading import parse_json, read_text
from creditscope.records.declared import DeclaredRun
from creditscope.records.folder import RECORD
from creditscope.records.labels import flatten, label, named
from creditscope.records.report import SHOWN_HASH, Report
from creditscope.records.submission import Submission
from creditscope.registry import natural_key
from creditscope.verdict import Finding, Verdict

MOST_BYTES = 2**24
MOST_SIGNS = 4_000  # of any text in a report
LEAST_IMAGES = 100
VERSION = re.compile(r"\d{1,4}(\.\d{1,4}){1,2}([a-z0-9.+]{0,20})")
COMMIT = re.compile(r"[0-9a-f]{40}")


def received(path: Path | str) -> Submission:
    """The submission in a file, once everything that can be checked without the network holds; else it is refused."""
    return checked(read_text(path, "The submission", MOST_BYTES), str(path))


def checked(text: str, name: str) -> Submission:
    """The submission in a JSON text, which error messages call `name`."""
    submission = Submission.parse(text, name)
    written = parse_json(text, name)["reports"]
    reasons = [reason for place, report in enumerate(written) for reason in _altered(report, f"report {place + 1}")]
    reasons += objections(submission.reports)
    if reasons:
        raise InvalidInput(
            f"{name} is refused: {reasons[0]}.\n"
            + "".join(f"Also: {reason}.\n" for reason in reasons[1:])
            + "The gallery would show what no audit found. Audit again and submit the report as it was written."
        )
    return submission


def _altered(report: Any, name: str) -> Iterator[str]:
    """What `creditscope verify` finds in a report as it was written."""
    document = {"schema_version": Submission.readable[-1], **report}
    yield from _not_as_written(verify_document(document, name), name)


def _not_as_written(result: Verification, name: str) -> Iterator[str]:
    for check in result.checks:
        if check.outcome == "differs" or (check.name == "content hash" and check.outcome != "holds"):
            yield f"{name}, {check.name}: {check.text}"


def verified_report(path: Path) -> Report:
    """The report in a file, a page or the folder of a run; one that is not as an audit wrote it is refused."""
    result = verify(path)
    if reasons := list(_not_as_written(result, str(path))):
        raise InvalidInput(
            f"{'; '.join(reasons)}.\nThe gallery shows what an audit wrote. Audit again, and give the report unchanged."
        )
    return result.report


def objections(reports: Sequence[Report]) -> list[str]:
    """Why these reports cannot be one row of the gallery; empty if they can."""
    found = [f"report {place + 1} {reason}" for place, report in enumerate(reports) for reason in _of_one(report)]
    subjects = {(report.subject.model, report.subject.depth, report.subject.parameters) for report in reports}
    if len(subjects) > 1:
        found.append("the reports are about networks of different kind or size, so that they are no seeds of one run")
    if len({report.provenance.images for report in reports}) > 1:
        found.append("the reports are about different numbers of images, so that their accuracies do not compare")
    if len({report.content_hash for report in reports}) < len(reports):
        found.append("two reports have the same content hash: one audit would count twice")
    seeds = [seed for report in reports for seed in report.provenance.seeds]
    if len(set(seeds)) < len(seeds):
        found.append("two reports name the same seed: one seed would count twice")
    return found


def _of_one(report: Report) -> Iterator[str]:
    if report.protocol != DEFAULT:
        yield f"was judged by protocol {report.protocol!r:.40}; the gallery compares verdicts of {DEFAULT!r} alone"
    if report.verdict.outcome == "control":
        yield "is about a control, which claims nothing"
    if not report.accuracy:
        yield "has no accuracy"
    if report.provenance.images < LEAST_IMAGES:
        yield f"rests on {report.provenance.images} images; at least {LEAST_IMAGES} are needed"
    yield from _of_origin(report)
    for code, finding in report.findings.items():
        name = registered_name(code.partition(":")[0], finding.variant)
        own = diagnostics[name].limit if name in diagnostics else None
        if own is None:
            yield f"holds {code!r:.40}, which is no diagnostic of creditscope"
        elif (finding.limit.at, finding.limit.fires) != (own.at, own.fires):
            yield f"has another limit for {code} than creditscope {__version__}"
    longest = max(map(len, _texts(report.model_dump(mode="json"))), default=0)
    if longest > MOST_SIGNS:
        yield f"holds a text of {longest:,} characters; no report of ours has more than {MOST_SIGNS:,}"


def _of_origin(report: Report) -> Iterator[str]:
    """What is wrong with the provenance."""
    origin = report.provenance
    if not VERSION.fullmatch(origin.creditscope) or (origin.commit is not None and not COMMIT.fullmatch(origin.commit)):
        yield "does not say which creditscope wrote it: its version or commit has no such form"
    off = [name for name, guard in origin.guards.items() if guard.status is GuardStatus.OFF]
    if off or not origin.guards:
        yield f"was made with guards switched off ({', '.join(off)[:80] or 'all'}), so that its gradient is not known"


def _texts(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, Mapping):
        yield from (text for pair in part.items() for one in pair for text in _texts(one))
    elif isinstance(part, list):
        yield from (text for one in part for text in _texts(one))


def judged_together(reports: Sequence[Report]) -> tuple[dict[str, Finding], Verdict]:
    """Findings and verdict over all reports: D3 by its interval over seeds, any other one where all of them agree."""
    own = [{code: _plain(code, finding) for code, finding in report.findings.items()} for report in reports]
    codes = sorted({code for findings in own for code in findings}, key=natural_key)
    together = {code: over_seeds([findings.get(code) for findings in own]) for code in codes}
    trained = [accuracy for report in reports for accuracy in report.accuracy or ()]
    controls = [accuracy for report in reports for accuracy in report.control_accuracy or ()]
    if len(reports) == 1:
        together = own[0]
    elif all(report.control_accuracy for report in reports):
        together["D3"] = from_accuracies(tuple(trained), tuple(controls), reports[0].provenance.images)
    return together, judge(protocol_named(DEFAULT), together)


def _plain(code: str, finding: Finding) -> Finding:
    """A finding in the words of its diagnostic, without the note that came with it."""
    entry = diagnostics[registered_name(code.partition(":")[0], finding.variant)]
    return replace(in_current_words(finding), title=entry.title, note="", column=entry.column)


def file_name(submission: Submission) -> str:
    """The name of a submission in the gallery: the same reports have the same one, in any order."""
    hashes = sorted(report.content_hash for report in submission.reports)
    return f"{sha256(' '.join(hashes).encode()).hexdigest()[:SHOWN_HASH]}.json"


def run_names(path: Path) -> dict[str, str]:
    """Method, network and data of a run's record, with their options; empty for a report."""
    path = path / RECORD if path.is_dir() else path
    text = read_text(path, "The report", MOST_BYTES)
    if not text.lstrip().startswith("{"):
        return {}
    content = parse_json(text, str(path))
    if "history" not in content or not isinstance(content.get("spec"), dict):
        return {}
    try:
        settings = flatten(DeclaredRun.model_validate(content["spec"]).model_dump())
    except ValidationError as error:
        raise BadFile(f"{path} has no valid spec: {error!s:.500}\nWhich run it is, is not known.") from error
    return {"method": label(settings), "network": named(settings, "network"), "data": named(settings, "data")}
