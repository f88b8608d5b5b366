"""Where a result comes from: the source tree's commit, the source of accuracies, the guards that checked the model."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path


class GuardStatus(StrEnum):
    """Outcome of a guard that did not refuse the model."""

    PASSED = "passed"
    GUESS = "a guess"  # nothing in the model settles it
    NOT_POSSIBLE = "not possible"  # the model does not allow the check
    OFF = "switched off"  # by the user


@dataclass(frozen=True, slots=True)
class Guard:
    """One check of the model before anything was measured: its outcome, and how it was checked or why not."""

    status: GuardStatus
    text: str = ""

    @property
    def passed(self) -> bool:
        """Whether the check was made and the model passed it."""
        return self.status is GuardStatus.PASSED

    def __str__(self) -> str:
        return f"{self.status}: {self.text}" if self.text else str(self.status)


class Source(StrEnum):
    """Where an accuracy comes from."""

    MEASURED = "measured"  # on the batches of the audit
    RECORDS = "records"  # of runs that creditscope trained
    TYPED = "typed in"  # by the caller


@lru_cache(maxsize=1)
def source_commit() -> str | None:
    """The commit of the running source tree; None for an installed package or without git."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists() or shutil.which("git") is None:
        return None
    answer = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return answer.stdout.strip() or None
