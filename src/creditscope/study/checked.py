"""The records of a store that were compared with their checksums, so that thousands are not hashed for every question.

A record counts as sound as long as its file is the very one that was hashed: same inode, size, time of writing, and
time of the last change, which the kernel sets and no program can. Bits that a disk loses without a write are found when
the record is read: whoever reads its numbers compares the checksum again. What is remembered about a store that was
copied or sent never matches, so its records are hashed.
"""

from __future__ import annotations

import errno
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from creditscope.errors import BadFile
from creditscope.files import without_link, write_text
from creditscope.reading import ZEROS, parse_json, read_text, seal_holds, sealed
from creditscope.records.folder import CHECKED, RECORD, is_audited, record_damage

WORTH = 200  # records to hash: fewer take less time than the file is worth
SETTLED = 2 * 10**9  # nanoseconds after which a second change of a file has another time, on any file system
ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP)
Stamp = tuple[int, int, int, int]


class Checked(NamedTuple):
    """A record as it was found: why it cannot be trusted, empty if it can, and whether it holds a report."""

    stamp: Stamp
    damage: str
    audited: bool


class CheckedRecords:
    """What is known of the records of one store, in memory and in its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, Checked] = {}  # by the path of the record
        self._new, self._loaded = 0, False

    def check(self, path: str, key: str, *, listed: bool = False) -> Checked | None:
        """The record of a run in a file; read only if it has changed since. None if there is no file.

        listed   whether its folder names it, so that it must be a link to nothing if it cannot be found
        """
        try:
            state = os.stat(path)  # noqa: PTH116  thousands of times
        except OSError as error:
            if error.errno in ABSENT and not listed:
                return None
            return Checked((0, 0, 0, 0), f"{path} cannot be read: {error.strerror}", audited=False)
        if not self._loaded:
            self._load()
        stamp = (state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
        known = self._known.get(path)
        if known is None or known.stamp != stamp:
            damage = record_damage(Path(path), key)
            known = self._known[path] = Checked(stamp, damage, not damage and is_audited(Path(path)))
            self._new += 1
        return known

    def save(self) -> None:
        """Remember the sound records of the store in its folder, if many were hashed; a full disk is no hindrance."""
        if self._new < WORTH:
            return
        latest, records = time.time_ns() - SETTLED, {}
        for path, (stamp, damage, audited) in self._known.items():
            key = Path(path).parent.name
            if not damage and path == self._place(key) and max(stamp[2:]) < latest:
                records[key] = [*stamp, audited]
        text = json.dumps({"checksum": ZEROS, "records": records}, separators=(",", ":"))
        with suppress(BadFile):
            write_text(without_link(self._folder / CHECKED), sealed(text.encode()).decode())
        self._new = 0

    def _place(self, key: str) -> str:
        return f"{self._folder}/{key}/{RECORD}"

    def _load(self) -> None:
        """Read what an earlier process found; a file that is damaged or of another form is not used."""
        self._loaded = True
        if not (self._folder / CHECKED).exists():
            return
        with suppress(BadFile, ValueError, TypeError, KeyError, AttributeError):
            text = read_text(self._folder / CHECKED, "The list of checked records")
            if not seal_holds(text.encode()):
                return
            for key, (*numbers, audited) in parse_json(text, CHECKED)["records"].items():
                inode, size, written, changed = map(int, numbers)
                self._known[self._place(key)] = Checked((inode, size, written, changed), "", bool(audited))
