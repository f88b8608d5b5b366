"""The folder of a trained run: one layout and one writer for `train` and `study`.

FOLDER/weights.safetensors   network, feedback and auxiliary networks
FOLDER/record.json           spec, history and report; it comes last, so its presence means that the run is done
FOLDER/controls/NAME/        controls of the run, in the same layout; a study keeps them beside FOLDER
FOLDER.snapshot              the state of an unfinished run; FOLDER.snapshot.previous is the one before
FOLDER/damaged-1/            a record and weights that were not what was written, with the reason
FOLDER.snapshot.damaged      the same of a snapshot; its reason is in FOLDER.snapshot.damaged.txt

The store of a study keeps its own files beside these: FOLDER.failed.json, FOLDER.lock and checked.json.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from itertools import count
from pathlib import Path

from creditscope.errors import BadFile, DamagedFile
from creditscope.files import atomic_write, without_link, write_text
from creditscope.reading import parse_json, read_bytes, seal_holds
from creditscope.records.report import Report
from creditscope.records.run import RunRecord

WEIGHTS, RECORD, CONTROLS = "weights.safetensors", "record.json", "controls"
SNAPSHOT, FAILED, LOCK = ".snapshot", ".failed.json", ".lock"  # behind the name of a run's folder
CHECKED = "checked.json"  # the records of a store that were hashed
MOST_SNAPSHOT = 2**38  # bytes
KEY = re.compile(r"[0-9a-f]{16}")  # of a run
KEY_INSIDE = re.compile(rb'"key": ?"([0-9a-f]*)"')
NO_REPORT = re.compile(rb'"report":\s*null\s*}\s*$')
OTHER_WEIGHTS = "they are not the weights that the record was written with"


def snapshot_path(folder: Path) -> Path:
    """Where the state of an unfinished run is kept."""
    folder = folder if folder.name.strip(".") else folder.resolve()  # `.` and `..` have no name of their own
    return folder.with_name(f"{folder.name}{SNAPSHOT}")


def is_bookkeeping(path: Path) -> bool:
    """Whether a JSON file is one that a store keeps for itself: neither a record nor a report."""
    return path.name == CHECKED or (path.name.endswith(FAILED) and KEY.fullmatch(path.name[: -len(FAILED)]) is not None)


def previous_snapshot(path: Path) -> Path:
    """The snapshot before the last, which is kept in case the last one is damaged."""
    return path.with_name(f"{path.name}.previous")


def replace_snapshot(path: Path, content: bytes) -> None:
    """Write a snapshot; the one that was there stays as its predecessor."""
    previous = previous_snapshot(path)
    with atomic_write(without_link(path)) as part:
        part.write_bytes(content)
        if path.exists():
            previous.unlink(missing_ok=True)
            try:
                os.link(path, previous)  # there is a snapshot at every moment
            except OSError:  # a file system without links
                path.replace(previous)


def remove_snapshots(path: Path) -> None:
    """Remove the snapshots of a finished run."""
    for one in (path, previous_snapshot(path)):
        one.unlink(missing_ok=True)


def recover_snapshot(path: Path) -> str:
    """Set a damaged snapshot aside and use its predecessor, if that one is sound; what was done, empty if nothing."""
    previous, notices = previous_snapshot(path), []
    for _ in range(2):
        if not path.exists() and previous.exists():
            previous.rename(path)  # the process was killed between the two renames, or the last one is damaged
        reason = snapshot_damage(path)
        if reason:
            aside = path.with_name(f"{path.name}.damaged")
            aside.unlink(missing_ok=True)  # a rename onto another link to the same file would do nothing
            path.replace(aside)
            write_text(aside.with_name(f"{aside.name}.txt"), f"{reason}\n")
            notices.append(f"{path} is damaged: {reason}. It was moved to {aside.name}.")
    if notices:
        going_on = "resumes from the snapshot before" if path.exists() else "starts again from its first epoch"
        return " ".join([*notices, f"The run {going_on}, and ends with the same bits."])
    return ""


def snapshot_damage(path: Path) -> str:
    """Why a snapshot cannot be used; empty if it can, or if there is none. One without a checksum is an older one."""
    if not path.exists():
        return ""
    try:
        content = read_bytes(path, "The snapshot", MOST_SNAPSHOT)
        holds = seal_holds(content)
        if holds is None:
            holds = _complete_without_seal(content)
    except DamagedFile as error:
        return str(error).partition("\n")[0].rstrip(".")
    return "" if holds else "its checksum does not match what was written"


def _complete_without_seal(content: bytes) -> bool:
    """Whether a snapshot of before there were checksums has every byte that its header announces."""
    end = 8 + int.from_bytes(content[:8], "little")
    try:
        header = parse_json(content[8:end].decode(), "its header")
        metadata = header.pop("__metadata__")
        sizes = [entry["data_offsets"][1] for entry in header.values()]
    except (DamagedFile, UnicodeDecodeError, AttributeError, KeyError, TypeError, IndexError):
        return False
    return set(metadata) == {"history", "run"} and end + max(sizes, default=0) == len(content)


def record_damage(path: Path, key: str = "") -> str:
    """Why a run's record cannot be trusted: it is not what was written, no record at all, or that of another run."""
    try:
        content = read_bytes(path, "The record")
        holds = seal_holds(content)
        if holds is None:
            RunRecord.from_json(path)  # an older record, without a checksum
    except DamagedFile as error:
        return str(error).partition("\n")[0].rstrip(".")
    if holds is False:
        return f"{path}: its checksum does not match what was written"
    own = KEY_INSIDE.search(content[:400])
    if key and (own is None or own[1].decode() != key):
        return f"{path} is the record of another run: its key is {'missing' if own is None else own[1].decode()}"
    return ""


def is_audited(path: Path) -> bool:
    """Whether a run's record holds a report; reads only its end."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 64))
        return NO_REPORT.search(file.read()) is None


def named_key(path: Path) -> str:
    """The key that the place of a record names, KEY/record.json or KEY.json; empty if it names none."""
    name = path.resolve().parent.name if path.name == RECORD else path.stem
    return name if KEY.fullmatch(name) else ""


def read_record(path: Path) -> RunRecord:
    """The record in a file; one that lies in the place of another run is refused."""
    record, key = RunRecord.from_json(path), named_key(path)
    if key and record.key != key:
        raise DamagedFile(
            f"{path} is not the record of the run {key}: it has the key {record.key or 'of no run'}.\n"
            "Its numbers would be shown as those of another run. Restore the record, or run that run again."
        )
    return record


def weights_damage(folder: Path) -> str:
    """Why the weights of a finished run are not those of its record; empty if they are, or if the record is older."""
    wanted = RunRecord.from_json(folder / RECORD).weights_checksum
    return "" if not wanted or wanted == file_digest(folder / WEIGHTS) else f"{folder / WEIGHTS}: {OTHER_WEIGHTS}"


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's content; empty if there is no such file."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def set_aside(folder: Path, reason: str) -> Path:
    """Move the record and the weights of a damaged run into a folder of their own, with the reason; that folder."""
    number = next(n for n in count(1) if not (folder / f"damaged-{n}").exists())
    aside = folder / f"damaged-{number}"
    try:
        aside.mkdir()
        for name in (RECORD, WEIGHTS):  # the record first: without it the run does not count as done
            if (folder / name).exists():
                (folder / name).rename(aside / name)
    except OSError as error:
        raise BadFile(
            f"{folder} holds a damaged run that cannot be moved aside: {error.strerror}.\n"
            f"It is not trusted ({reason}). Remove it, or make the folder writable."
        ) from error
    write_text(aside / "reason.txt", f"{reason}\n")
    return aside


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
    with atomic_write(without_link(folder / WEIGHTS)) as part:
        part.write_bytes(weights)
        (folder / RECORD).unlink(missing_ok=True)  # an old record would describe other weights
    bound = record.model_copy(update={"weights_checksum": hashlib.sha256(weights).hexdigest()})
    bound.to_json(folder / RECORD)


def save_report(folder: Path, report: Report) -> None:
    """Put the report of an audit into the record of its run."""
    record = RunRecord.from_json(folder / RECORD)
    record.model_copy(update={"report": report}).to_json(without_link(folder / RECORD))
