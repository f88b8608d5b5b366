"""The status of a study: runs by state, and the time left, estimated from finished runs."""

from __future__ import annotations

import re
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from creditscope.runs.spec import RunSpec
from creditscope.study.plan import Plan
from creditscope.study.store import RunState, Store

SAMPLES = 40  # finished runs whose times are read, so that a store of thousands answers as fast as one of ten
Kind = tuple[str, ...]  # of a run, by what an epoch's time depends on
SECONDS = re.compile(rb'"seconds":\s*([0-9]+(?:\.[0-9]+)?)[\s,}]')


@dataclass(frozen=True, slots=True)
class StudyStatus:
    """The state of every run, and the seconds left with one worker; None until a run has finished."""

    states: dict[str, RunState]
    seconds_left: float | None

    @property
    def counts(self) -> dict[RunState, int]:
        """The number of runs in each state."""
        numbers = Counter(self.states.values())
        return {state: numbers[state] for state in RunState}


class Pace:
    """Seconds per epoch by kind of run, learnt from the latest finished runs."""

    def __init__(self) -> None:
        self._seconds: dict[Kind, deque[float]] = {}

    def learn(self, spec: RunSpec, seconds: float) -> None:
        """Add the time that a run took."""
        times = self._seconds.setdefault(kind_of(spec), deque(maxlen=SAMPLES))
        times.append(seconds / max(1, spec.epochs))

    def total(self, left: Mapping[Kind, int]) -> float | None:
        """Seconds for the remaining epochs of each kind of run, with one worker; None if no time is known.

        A kind that is not known takes the median of the others.
        """
        others = [median(times) for times in self._seconds.values()] if left else []
        if left and not others:
            return None
        return sum(median(self._seconds.get(kind) or others) * epochs for kind, epochs in left.items())


def kind_of(spec: RunSpec) -> Kind:
    """What an epoch's time depends on: network, data, method, control, their options and the batch size."""
    options = (sorted(spec.network_options.items()), sorted(spec.method_options.items()))
    return (spec.network, spec.data, spec.method, spec.control, str(options), str(spec.batch_size))


def study_status(runs: Plan, store: Store) -> StudyStatus:
    """The status of a study; imports no torch and reads few records."""
    states = store.states(runs)
    pace = learn_pace(runs, store, [key for key, state in states.items() if state is RunState.DONE])
    left: Counter[Kind] = Counter()
    for key, state in states.items():
        if state in (RunState.MISSING, RunState.RUNNING):
            progress = store.progress(key) if state is RunState.RUNNING else None
            left[kind_of(runs[key])] += runs[key].epochs - (progress.epoch if progress else 0)
    return StudyStatus(states, pace.total(left))


def learn_pace(runs: Plan, store: Store, done: list[str]) -> Pace:
    """The pace of some finished runs, one of each kind first."""
    kinds = {kind_of(runs[key]): key for key in done}
    pace = Pace()
    for key in list(dict.fromkeys((*kinds.values(), *done)))[:SAMPLES]:
        path = store.record_path(key)
        seconds = SECONDS.search(path.read_bytes()) if path is not None else None
        if seconds:
            pace.learn(runs[key], float(seconds[1]))
    return pace


def duration(seconds: float) -> str:
    """Seconds in words: 42 s, 3 min, 2 h 05 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def since(moment: float) -> str:
    """The time since a moment, in words."""
    return duration(max(0.0, time.time() - moment))
