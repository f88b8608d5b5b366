"""From the folder of a trained run to its audit: the record says what it is, and where its control may be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from creditscope.errors import BadFile, InvalidInput
from creditscope.records.run import RECORD, WEIGHTS, RunRecord

if TYPE_CHECKING:
    from creditscope.records.report import Report
    from creditscope.runs.spec import RunSpec


def refuse_what_the_record_decides(folder: Path, given: dict[str, Any]) -> None:
    """A checkpoint's network and data are those of its record; another choice would audit another run."""
    if not (folder / RECORD).is_file():
        raise BadFile(
            f"{folder} cannot be read: it is a folder without record.json, so no checkpoint.\n"
            "Nothing says what its network is. Name a folder made by `creditscope train`, or a weights file."
        )
    clashing = [f"--{name}" for name, value in given.items() if value]
    if clashing:
        raise InvalidInput(
            f"{folder} is a checkpoint: its record says what {' and '.join(clashing)} would say.\n"
            "Leave it out, or audit the weights file alone: creditscope audit "
            f"{folder / WEIGHTS} {' '.join(clashing)} ..."
        )


def audit_folder(
    folder: Path, data_folder: Path | None, device: str, limit: int | None, options: dict[str, Any]
) -> Report:
    """Audit a checkpoint on its test set, with its own credit and its frozen twin, if that is to be found."""
    from creditscope.batch import Batch
    from creditscope.runs.audit import audit_checkpoint
    from creditscope.runs.run import load, load_data, read_spec

    checkpoint = load(folder, data_folder=data_folder, device=device)
    spec = read_spec(checkpoint.record, str(folder))
    data = load_data(spec, data_folder)
    if limit is not None:
        data = replace(data, test=Batch(data.test.inputs[:limit], data.test.labels[:limit]))
    controls = [] if options.get("control_accuracy") else frozen_controls(folder, spec)
    given = {name: value for name, value in options.items() if value not in (None, "", [], {})}
    if not controls and not options.get("control_accuracy"):
        remarks = (given.get("notes", ""), _unused_twin(folder, spec))
        given["notes"] = "; ".join(remark for remark in remarks if remark)
    return audit_checkpoint(checkpoint, data, controls, **given)


def frozen_controls(folder: Path, spec: RunSpec) -> list[RunRecord]:
    """The frozen twin's record: in the run's own folder `controls`, else among the sibling folders."""
    if spec.control != "none":
        return []
    wanted = spec.control_spec("frozen").key
    for records in (_own_controls(folder), _beside(folder)):
        found = [record for record in records if record.key == wanted and record.diverged is None]
        if found:
            return found[:1]
    return []


def _own_controls(folder: Path) -> Iterator[RunRecord]:
    """The records in the run's own folder `controls`; a damaged one is refused."""
    yield from map(RunRecord.from_json, sorted((folder / "controls").glob(f"*/{RECORD}")))


def _beside(folder: Path) -> Iterator[RunRecord]:
    """The records in the sibling folders; a file that is no record is passed over."""
    for path in sorted(folder.resolve().parent.glob(f"*/{RECORD}")):
        try:
            yield RunRecord.from_json(path)
        except BadFile:
            continue


def _unused_twin(folder: Path, spec: RunSpec) -> str:
    """Why the run's own `controls/frozen`, if it is there, was not compared with; empty if it is not."""
    path = folder / "controls" / "frozen" / RECORD
    if spec.control != "none" or not path.is_file():
        return ""
    record = RunRecord.from_json(path)
    if record.diverged is None:
        return f"{path.parent} is not the frozen twin of this run, so depth was not compared with it"
    return f"the frozen twin diverged in epoch {record.diverged.epoch + 1}, so depth has nothing to be compared with"
