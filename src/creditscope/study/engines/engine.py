"""The interface of an engine: it takes jobs, executes several in parallel, and reports epochs and ends."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass

from creditscope.study.engines.job import Job, RunResult


@dataclass(frozen=True, slots=True)
class EpochDone:
    """A run has finished so many epochs."""

    key: str
    done: int


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A run is over, well or not."""

    key: str
    result: RunResult


Event = EpochDone | RunEnded


class Engine(ABC):
    """Does jobs, several at a time."""

    @property
    @abstractmethod
    def free(self) -> int:
        """How many more jobs it takes right now."""

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many jobs it does at a time."""

    @abstractmethod
    def start(self, job: Job) -> None:
        """Begin a job."""

    @abstractmethod
    def events(self, seconds: float) -> list[Event]:
        """What happened, waiting so long at most for the first of it."""

    @abstractmethod
    def stop(self) -> None:
        """End everything at once; what is under way is lost but for its snapshots."""

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
