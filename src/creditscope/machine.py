"""Failures of the machine, told apart from those of a run: a full disk, and memory or processes that ran out."""

from __future__ import annotations

import errno
import os
import re
import resource
import sys
from pathlib import Path

from creditscope.errors import CreditscopeError, NoRoom, OutOfResources

DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
RESOURCES = frozenset({errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN})
# What torch, numpy, the C++ runtime and Python write when an allocation fails; torch raises a plain RuntimeError
OUT_OF_MEMORY = re.compile(r"can't allocate memory|out of memory|bad_alloc|MemoryError|Cannot allocate memory", re.I)
NO_TEMPORARY = "No usable temporary directory"  # tempfile's words for a disk that is full
LONGEST = 300  # characters of a foreign message


def machine_error(error: BaseException | None) -> CreditscopeError | None:
    """What the machine lacked, if an error or one of its causes says so; None for any other error."""
    while error is not None:
        if isinstance(error, NoRoom | OutOfResources):
            return error
        if isinstance(error, OSError) and (error.errno in DISK or NO_TEMPORARY in str(error)):
            return NoRoom(
                f"Reading or writing failed{_place(error)}: {error.strerror or error}.\n"
                "Nothing was left half-written. Make room, then run the same command again."
            )
        if _ran_out(error):
            return out_of_memory(str(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return None


def out_of_memory(message: str = "") -> OutOfResources:
    """The error for work that needed more than the machine has."""
    what = " ".join(message.split())[:LONGEST]
    return OutOfResources(
        f"The machine ran out of memory, processes or open files{f': {what}' if what else '.'}\n"
        "Nothing was left half-written. Free some, use fewer workers or smaller sizes, then run the same command again."
    )


def _ran_out(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in RESOURCES):
        return True
    return isinstance(error, RuntimeError) and OUT_OF_MEMORY.search(str(error)) is not None


def _place(error: OSError) -> str:
    return "" if error.filename is None else f" at {error.filename}"


def memory() -> int:
    """Bytes that a process may use here: the machine's memory, or a lower limit of a container or of the shell."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        limits.append(soft)
    group = Path("/sys/fs/cgroup/memory.max")
    if sys.platform == "linux" and group.exists():
        text = group.read_text(encoding="ascii").strip()
        limits += [int(text)] if text.isdigit() else []
    return min(limits)


def alive(process: int) -> bool:
    """Whether a process of that number runs on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
