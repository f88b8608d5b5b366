"""Verifies a saved report: its content hash, its findings against their numbers, its verdict against its findings."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from creditscope import __version__
from creditscope.diagnostics import diagnostics, registered_name
from creditscope.errors import BadFile, DamagedFile, InvalidInput
from creditscope.protocols import PROTOCOLS, judge
from creditscope.reading import parse_json, read_text, seal_holds
from creditscope.records.folder import RECORD
from creditscope.records.judging import beyond_findings
from creditscope.records.report import HASH, Report
from creditscope.records.upgrade import READABLE, upgraded
from creditscope.verdict import Finding, Status, Verdict

Outcome = Literal["holds", "differs", "not known"]
EMBEDDED = re.compile(r'href="data:application/json;base64,([A-Za-z0-9+/=]+)"')
DIGITS = re.compile(r"[0-9a-f]{8,64}")
GIVE = "Nothing can be verified. Give a report as JSON or HTML, or the record of a run that was audited."
JUDGED = (Status.PASS, Status.FIRES, Status.UNDECIDED, Status.UNDEFINED)


@dataclass(frozen=True, slots=True)
class Check:
    """One question about a report, its answer, and the reason in words."""

    name: str
    outcome: Outcome
    text: str


@dataclass(frozen=True, slots=True)
class Verification:
    """The checks of one report; `content_hash` is that of its evidence and provenance as they are now."""

    report: Report
    content_hash: str
    checks: tuple[Check, ...]

    @property
    def outcome(self) -> Outcome:
        """differs if anything does; not known if anything could not be checked; else holds."""
        outcomes = {check.outcome for check in self.checks}
        return "differs" if "differs" in outcomes else "not known" if "not known" in outcomes else "holds"

    @property
    def exit_code(self) -> int:
        """0 everything holds, 1 something differs, 3 something could not be checked."""
        return {"holds": 0, "differs": 1, "not known": 3}[self.outcome]


def verify(path: Path | str, published: str | None = None) -> Verification:
    """Check the report in a JSON file, the record or folder of a run, or an HTML page.

    published  the hash that somebody printed, its first 8 digits or more
    """
    if published is not None and not DIGITS.fullmatch(published):
        raise InvalidInput(
            f"{published!r:.80} is not a content hash.\n"
            "It could not be compared. Give the 8 to 64 digits (0-9, a-f) that a report printed."
        )
    text = _text(Path(path))
    whole = verify_document(_document(text, path), str(path), published)
    return replace(whole, checks=(*_file(text), *whole.checks))


def verify_document(document: Mapping[str, Any], name: str, published: str | None = None) -> Verification:
    """Check a report as it stands in a parsed file, before any of it is interpreted; `name` is for error messages."""
    report = _report(document, name)
    checks = [
        _hash(report, document.get(HASH)),
        *_published(report, published),
        _findings(report),
        _verdict(report),
        _version(report),
    ]
    return Verification(report, report.content_hash, tuple(checks))


def _text(path: Path) -> str:
    """The JSON in a file, or inside a page."""
    path = path / RECORD if path.is_dir() else path
    text = read_text(path, "The report")
    embedded = EMBEDDED.search(text) if text.lstrip().startswith("<") else None
    try:
        return base64.b64decode(embedded[1]).decode() if embedded else text
    except (ValueError, binascii.Error) as error:
        raise BadFile(f"{path} holds no report: {_first_line(error)}\n{GIVE}") from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200].rstrip(".") + "."


def _document(text: str, path: Path | str) -> Mapping[str, Any]:
    """The report in a JSON text as it was written, before any of it is interpreted."""
    try:
        content = parse_json(text, str(path))
    except DamagedFile as error:
        raise BadFile(f"{path} holds no report: {_first_line(error)}\n{GIVE}") from error
    inside = content.get("report") if isinstance(content, dict) and "history" in content else content
    if not isinstance(inside, dict) or "findings" not in inside:
        raise BadFile(f"{path} holds no report: there are no findings in it.\n{GIVE}")
    return {"schema_version": content.get("schema_version"), **inside}


def _report(document: Mapping[str, Any], path: Path | str) -> Report:
    version = document.get("schema_version")
    if version not in READABLE:
        raise BadFile(
            f"{path} has schema version {version!r:.80}, this creditscope reads {' and '.join(map(str, READABLE))}.\n"
            "It cannot be verified. Use the creditscope that wrote it."
        )
    plain = dict(document) if version == READABLE[-1] else upgraded(dict(document))
    plain.pop("checksum", None)  # of the file, not of its content
    try:
        return Report.model_validate_json(json.dumps(plain))
    except ValidationError as error:
        raise BadFile(f"{path} is not a creditscope report: {error!s:.500}\nIt cannot be verified.") from error


def _file(text: str) -> Iterator[Check]:
    """The checksum of the file; one without, as an older one, is not checked."""
    holds = seal_holds(text.encode(errors="surrogatepass"))
    if holds is not None:
        said = "every byte is as it was written" if holds else "it was edited after it was written"
        yield Check("file", "holds" if holds else "differs", said)


def _hash(report: Report, stored: object) -> Check:
    name, now = "content hash", report.content_hash
    if not stored:
        text = "the file has none: it was written by a creditscope before 0.2.0, or the hash was removed"
        return Check(name, "not known", text)
    if stored != now:
        return Check(name, "differs", f"the file says {stored!s:.16}, its evidence and provenance give {now[:16]}")
    return Check(name, "holds", f"{now[:16]}, over evidence and provenance")


def _published(report: Report, published: str | None) -> Iterator[Check]:
    if published is None:
        return
    holds = report.content_hash.startswith(published)
    text = f"{published[:16]} was published" + ("" if holds else f", this report has {report.content_hash[:16]}")
    yield Check("published hash", "holds" if holds else "differs", text)


def _findings(report: Report) -> Check:
    """Statuses against numbers and limits; limits against this version's, where it wrote the report."""
    wrong = [code for code, finding in report.findings.items() if not _follows(finding)]
    if wrong:
        return Check("findings", "differs", f"{', '.join(wrong)}: the status does not follow from number and limit")
    if report.provenance.creditscope == __version__:
        moved = [code for code, finding in report.findings.items() if _limit_moved(finding)]
        if moved:
            return Check("findings", "differs", f"{', '.join(moved)}: not the limit of creditscope {__version__}")
    return Check("findings", "holds", f"{len(report.findings)} statuses follow from their numbers and limits")


def _follows(finding: Finding) -> bool:
    if finding.status not in JUDGED:
        return True
    return finding.measurement is not None and finding.limit.judge(finding.measurement) is finding.status


def _limit_moved(finding: Finding) -> bool:
    """Whether the limit is neither the diagnostic's own nor marked as the user's."""
    name = registered_name(finding.code.partition(":")[0], finding.variant)
    if name not in diagnostics:
        return False
    own, limit = diagnostics[name].limit, finding.limit
    calibrated = limit.at if limit.calibrated is None else limit.calibrated
    return (calibrated, limit.fires) != (own.at, own.fires)


def _verdict(report: Report) -> Check:
    """The stored verdict against the one that the findings give; that of a control or a diverged run needs more."""
    stored, known = report.verdict, PROTOCOLS.get(report.protocol)
    if known is None:
        return Check("verdict", "not known", f"this creditscope does not know the protocol {report.protocol!r:.80}")
    again, here = judge(known, report.findings), report.provenance.creditscope == __version__
    if (again.text, again.outcome) == (stored.text, stored.outcome):
        if here and not _says_the_same(stored, again):
            return Check("verdict", "differs", f"{stored.text} follows from the findings, its explanation does not")
        return Check("verdict", "holds", f"{stored.text} follows from the findings")
    if beyond_findings(again, stored, report.findings):
        return Check("verdict", "holds", f"{stored.text}: not judged by its findings alone, and not a pass")
    text = f"the file says {stored.text!s:.80}, its findings give {again.text}"
    return Check("verdict", "differs" if here else "not known", text)


def _says_the_same(stored: Verdict, again: Verdict) -> bool:
    """Whether modes and reason are equal and no warning was taken away."""
    one, other = ((v.shown, v.ruled_out, v.open, v.why) for v in (stored, again))
    return one == other and set(again.warnings) <= set(stored.warnings)


def _version(report: Report) -> Check:
    wrote = report.provenance.creditscope
    if wrote == __version__:
        return Check("version", "holds", f"written by creditscope {wrote}, as this one")
    return Check("version", "holds", f"written by creditscope {wrote:.40}; this is {__version__}: limits not compared")
