"""Where the frozen control of a run lies: in the run's own folder `controls`, else among the folders beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from creditscope.errors import BadFile, InvalidInput
from creditscope.plugins import check_vouched
from creditscope.records.folder import CONTROLS, RECORD, read_record
from creditscope.records.run import RunRecord
from creditscope.runs.spec import RunSpec, read_spec


def find_frozen_control(folder: Path, spec: RunSpec) -> tuple[RunRecord | None, str]:
    """The record of a run's frozen control, or why `controls/frozen` cannot be used (empty if there is none)."""
    if spec.control != "none":
        return None, ""
    wanted = spec.control_spec("frozen").key
    for records in (_own(folder), _beside(folder, wanted)):
        for record in records:
            if record.key == wanted and record.diverged is None:
                return record, ""
    return None, _unusable(folder)


def _own(folder: Path) -> Iterator[RunRecord]:
    """The records in the run's own folder `controls`; a damaged one is refused."""
    return map(read_record, sorted((folder / CONTROLS).glob(f"*/{RECORD}")))


def _beside(folder: Path, wanted: str) -> Iterator[RunRecord]:
    """The records in the sibling folders, that of the folder `wanted` first; a file that is not a record is skipped."""
    siblings = folder.resolve().parent
    for path in sorted(siblings.glob(f"*/{RECORD}"), key=lambda path: (path.parent.name != wanted, path)):
        try:
            yield read_record(path)
        except BadFile:
            continue


def _unusable(folder: Path) -> str:
    path = folder / CONTROLS / "frozen" / RECORD
    if not path.is_file():
        return ""
    record = read_record(path)
    if record.diverged is None:
        return f"{path.parent} is not the frozen control of this run, so depth was not compared with it"
    return f"the frozen control diverged in epoch {record.diverged.epoch + 1}, so depth was not compared with it"


def matching_controls(spec: RunSpec, controls: Sequence[RunRecord]) -> tuple[RunRecord, ...]:
    """The frozen controls of a run, that with its own seed alone if it is among them; any other run is refused."""
    given = [(read_spec(record, "A control's record"), record) for record in controls]
    for control, _ in given:
        check_vouched(set(control.modules) - set(spec.modules), "A control's record")
        wanted = spec.control_spec("frozen").model_copy(update={"seed": control.seed})
        if control.key != wanted.key:
            raise InvalidInput(
                f"{control.title} is not the frozen control of {spec.title}.\n"
                "The margin would measure something other than depth. "
                f"Give the run with the same settings and --control frozen: key {spec.control_spec('frozen').key}."
            )
    own = tuple(record for control, record in given if control.seed == spec.seed)
    return own or tuple(record for _, record in given)
