"""The folder of a trained run: one layout and one writer for `train` and `study`.

FOLDER/weights.safetensors   network, feedback and auxiliary networks
FOLDER/record.json           spec, history and report; it comes last, so its presence means that the run is done
FOLDER/controls/NAME/        controls of the run, in the same layout; a study keeps them beside FOLDER
FOLDER.snapshot              the state of an unfinished run
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from creditscope.errors import BadFile
from creditscope.files import atomic_write
from creditscope.records.report import Report
from creditscope.records.run import RunRecord

WEIGHTS, RECORD, CONTROLS = "weights.safetensors", "record.json", "controls"


def snapshot_path(folder: Path) -> Path:
    """Where the state of an unfinished run is kept."""
    folder = folder if folder.name.strip(".") else folder.resolve()  # `.` and `..` have no name of their own
    return folder.with_name(f"{folder.name}.snapshot")


def write_run(folder: Path, weights: bytes, record: RunRecord) -> None:
    """Write a finished run: a new folder appears complete, in an existing one the record is replaced last."""
    part = folder.parent / f"{folder.name}.{os.getpid()}.part"
    try:
        if folder.is_dir():
            _fill(folder, weights, record)
        else:
            _fill(part, weights, record)
            part.rename(folder)
    except OSError as error:
        raise BadFile(
            f"{folder} cannot be written: {error.strerror}.\nThe run was not saved. Check disk space and permissions."
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _fill(folder: Path, weights: bytes, record: RunRecord) -> None:
    with atomic_write(folder / WEIGHTS) as part:
        part.write_bytes(weights)
        (folder / RECORD).unlink(missing_ok=True)  # an old record would describe other weights
    record.to_json(folder / RECORD)


def save_report(folder: Path, report: Report) -> None:
    """Put the report of an audit into the record of its run."""
    record = RunRecord.from_json(folder / RECORD)
    record.model_copy(update={"report": report}).to_json(folder / RECORD)
