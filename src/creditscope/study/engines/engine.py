"""The interface of an engine: it takes jobs, executes several in parallel, and reports epochs and ends."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from creditscope.study.engines.job import Job, RunResult


@dataclass(frozen=True, slots=True)
class EpochDone:
    """A run has finished an epoch, `done` in all."""

    key: str
    done: int


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A run has ended, with a result or an error."""

    key: str
    result: RunResult


Event = EpochDone | RunEnded


class Engine(ABC):
    """Executes jobs, several in parallel."""

    local: ClassVar[bool] = True  # whether its jobs run on this machine
    stacks: ClassVar[bool] = False  # whether it takes jobs with others beside them

    @property
    @abstractmethod
    def free(self) -> int:
        """How many more jobs it can take now."""

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many jobs it executes in parallel."""

    def expect(self, jobs: int) -> None:  # noqa: B027  an engine may have nothing to prepare
        """Get ready for so many jobs, while the driver does something else; by default nothing."""

    @abstractmethod
    def start(self, job: Job) -> None:
        """Start a job, and those beside it; every run of them ends by an event of its own."""

    @abstractmethod
    def events(self, seconds: float) -> list[Event]:
        """The events since the last call; waits at most `seconds` for the first one."""

    @abstractmethod
    def stop(self) -> None:
        """End every job at once; of runs under way only their snapshots are kept."""

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
