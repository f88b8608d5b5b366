"""Mutation testing of what decides a verdict: for every small change to a module, one of its tests must fail.

python -m tests.faults.mutants [MODULE ...]   modules such as verdict or diagnostics/scale; default: all

One process collects the tests and runs them once, noting which functions each of them calls. A mutant of a function is
a forked copy of that process in which the function has other code, and runs only the tests that call it. A mutant
outside of functions (a limit, a default) is a forked copy of a process that has not imported creditscope yet.
Outcomes go to build/mutants.jsonl; a mutant that was killed there is not tried again while its function stays the same.
Survivors that change nothing are explained in equivalent_mutants.json; only the others are counted against the tests.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import json
import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from mmap import mmap
from pathlib import Path
from typing import Any

import pytest
from tests.faults.mutations import Mutant, Replaced, install, living, mutants

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "creditscope"
OUTCOMES = ROOT / "build" / "mutants.jsonl"
EXPLAINED = Path(__file__).with_name("equivalent_mutants.json")
DIAGNOSTICS = ("tests/diagnostics", "tests/contracts/test_every_diagnostic.py")
# The tests that must notice, by module or folder of modules.
TESTS = {
    "verdict": ["tests/test_verdict.py", "tests/diagnostics/test_at_the_limits.py"],
    "diagnostics/__init__": [
        *DIAGNOSTICS,
        "tests/commands/test_explain_and_list.py::test_entries_are_listed_one_a_line",
        "tests/report/test_one_verdict.py::test_an_old_record_is_shown_in_current_words_with_its_own_numbers",
    ],
    "diagnostics/": [
        *DIAGNOSTICS,
        "tests/test_validation.py::test_a_calibrated_limit_is_the_geometric_middle_of_its_gap",
    ],
    "evidence/alignment": ["tests/evidence/test_alignment.py"],
    "evidence/credit": ["tests/evidence/test_records.py"],
    "evidence/ledger": [
        "tests/evidence/test_ledger_twin.py",
        "tests/evidence/test_ledger.py::test_gradients_in_half_precision_are_summed_without_rounding_the_sum",
    ],
    "evidence/norms": ["tests/evidence/test_norms.py"],
    "evidence/records": ["tests/evidence/test_records.py"],
    "evidence/updates": ["tests/evidence/test_updates.py"],
    "statistics/calibration": ["tests/statistics/test_calibration.py"],
    "statistics/comparison": ["tests/statistics/test_comparison.py"],
    "statistics/intervals": ["tests/statistics/test_intervals.py", "tests/statistics/test_calibration.py"],
    "statistics/layers": ["tests/statistics/test_layers.py"],
    "statistics/margin": ["tests/statistics/test_margin_parts.py", "tests/statistics/test_margin.py"],
    "statistics/power": ["tests/statistics/test_power.py"],
    "statistics/seeds": ["tests/statistics/test_seeds.py"],
    "statistics/shares": ["tests/statistics/test_shares.py"],
    "evidence/": ["tests/evidence"],
    "statistics/": ["tests/statistics"],
    "stream/trace": [
        "tests/stream/test_trace.py",
        "tests/stream/test_guards.py::test_parameters_of_blocks_are_constants_unless_a_block_needs_them",
    ],
    "methods/local": ["tests/methods/test_local.py", "tests/methods/test_dfa.py", "tests/methods/test_wrappers.py"],
    "study/store": ["tests/study/test_store.py", "tests/faults/test_trust.py::test_a_key_never_leads_out_of_the_store"],
}
HEAVY = ("torch", "scipy.stats", "pydantic", "safetensors.torch", "typer", "rich", "altair")
BROKEN = 86  # an exit code that nothing else has
KILLED = ("killed", "timeout")
SECONDS = 30.0  # beyond five times what the tests of a mutant take
# Our package has a pytest plugin, so that pytest would import all of it in its own way, without the mutant.
SILENT = ["-q", "-x", "--assert=plain", "--tb=native", "-p", "no:cacheprovider", "-o", "tmp_path_retention_policy=none"]


def path_of(module: str) -> Path:
    """The file of a module."""
    return SOURCE / f"{module}.py"


def tests_of(module: str) -> list[str]:
    """The test files that must notice a change to a module; none if it decides no verdict."""
    return next((TESTS[part] for part in (module, f"{module.partition('/')[0]}/") if part in TESTS), [])


def modules() -> list[str]:
    """Every module that decides a verdict."""
    names = sorted(str(path.relative_to(SOURCE).with_suffix("")) for path in SOURCE.rglob("*.py"))
    return [name for name in names if tests_of(name)]


def outcome(work: Callable[[], bool], seconds: float) -> str:
    """What becomes of the tests in a forked copy of this process: survives, killed, timeout; broken by a fault here."""
    process = os.fork()
    if process == 0:
        code = BROKEN
        try:
            os.setsid()
            for number in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), number)
            code = 0 if work() else 1
        finally:
            os._exit(code)
    end = time.monotonic() + seconds
    while not (ended := os.waitpid(process, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return "timeout"
        time.sleep(0.005)
    return {0: "survives", BROKEN: "broken"}.get(os.waitstatus_to_exitcode(ended[1]), "killed")


def passes(module: str, mutant: Mutant) -> bool:
    """Whether every test passes with the mutant in place of the module, in a process without creditscope."""
    dotted = ".".join(["creditscope", *module.removesuffix("/__init__").split("/")])
    sys.meta_path.insert(0, Replaced(dotted, mutant.code))
    return pytest.main([*SILENT, *tests_of(module)]) == 0


class Session:
    """In place of pytest's loop: run every test once and note what it calls, then, for each mutant, those that do."""

    def __init__(self, todo: list[tuple[str, Mutant]]) -> None:
        self.todo = todo
        self.calls: dict[str, set[tuple[str, int]]] = {}
        self.cost: dict[str, float] = {}
        self.kills: Counter[tuple[Any, str]] = Counter()  # by function and test
        self.failed = mmap(-1, 4)  # the number of the test that failed in a copy, which shares this with us

    def trace(self, session: pytest.Session) -> None:
        """Run every test, and note the files and first lines of the functions that it calls."""
        files = {mutant.code.co_filename for _, mutant in self.todo}
        caches = living(set())[1]
        for item, following in zip(session.items, [*session.items[1:], None], strict=True):
            called: set[tuple[str, int]] = set()

            def note(frame: Any, *_: Any, called: set[tuple[str, int]] = called) -> None:
                if frame.f_code.co_filename in files:
                    called.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

            for cached in caches:
                cached.cache_clear()  # else only the first test would be seen to call a cached function
            began = time.process_time()
            sys.settrace(note)
            try:
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            finally:
                sys.settrace(None)
            self.calls[item.nodeid], self.cost[item.nodeid] = called, time.process_time() - began

    def chosen(self, items: list[pytest.Item], module: str, mutant: Mutant) -> list[pytest.Item]:
        """The tests that call the function of a mutant: those that noticed others there first, then the cheapest."""
        first, last = mutant.lines or (0, -1)
        name, paths = mutant.code.co_filename, tuple(tests_of(module))
        chosen = [
            item
            for item in items
            if item.nodeid.startswith(paths)
            and any(file == name and first <= line <= last for file, line in self.calls[item.nodeid])
        ]
        place = (name, mutant.lines)
        return sorted(chosen, key=lambda item: (-self.kills[place, item.nodeid], self.cost[item.nodeid]))

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Trace, see that a copy without a change passes, then try every mutant whose function a test calls."""
        from hypothesis import Phase, settings  # pytest must be the first to import it

        phases = [Phase.explicit, Phase.generate]  # a mutant is killed by any example, not by the smallest one
        settings.register_profile("mutants", settings.default, phases=phases, max_examples=10)
        settings.load_profile("mutants")
        self.trace(session)
        self.living = living({mutant.code.co_filename for _, mutant in self.todo})
        gc.freeze()  # so that no copy of the process touches every object
        tried = 0
        for module, mutant in self.todo if not session.testsfailed else ():
            if chosen := self.chosen(session.items, module, mutant):
                tried += 1
                seconds = SECONDS + 20 * sum(self.cost[item.nodeid] for item in chosen)
                if tried == 1 and outcome(lambda c=chosen: self.passes(session, c, None), seconds) != "survives":
                    raise RuntimeError("The tests fail in a forked process.")
                end = outcome(lambda m=mutant, c=chosen: self.passes(session, c, m), seconds)
                place = (mutant.code.co_filename, mutant.lines)
                self.kills[place, chosen[int.from_bytes(self.failed[:])].nodeid] += end == "killed"
                tell(module, mutant, end)
        return True

    def passes(self, session: pytest.Session, items: list[pytest.Item], mutant: Mutant | None) -> bool:
        """Whether these tests pass with the mutant installed, if there is one."""
        if mutant is not None:
            install(mutant, *self.living)
        for number, item in enumerate(items):
            self.failed[:] = number.to_bytes(4)
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=[*items[number + 1 :], None][0])
            if session.testsfailed:
                return False
        return True


# --- all of them ---


def key_of(module: str, mutant: Mutant) -> str:
    """What tells one mutant from all others, of other versions of its function too."""
    lines = path_of(module).read_text().splitlines()
    first, last = mutant.lines or (1, len(lines))
    digest = hashlib.sha256("\n".join(lines[first - 1 : last]).encode()).hexdigest()[:12]
    return json.dumps([module, digest, mutant.place[0] - first, mutant.place[1], mutant.was, mutant.now])


def outcomes() -> dict[str, str]:
    """What became of the mutants that were tried so far."""
    return dict(json.loads(row) for row in outcomes_lines())


def outcomes_lines() -> list[str]:
    """One line per mutant that was tried, the latest last."""
    return OUTCOMES.read_text().splitlines() if OUTCOMES.exists() else []


def tell(module: str, mutant: Mutant, end: str) -> None:
    """Keep what became of a mutant."""
    if end == "broken":
        raise RuntimeError(f"A fault of the mutator: {module}, {mutant}.")
    with OUTCOMES.open("a") as file:
        file.write(json.dumps([key_of(module, mutant), end]) + "\n")


def mutants_of(module: str) -> list[Mutant]:
    """Every mutant of a module."""
    return list(mutants(path_of(module).read_text(), str(path_of(module))))


def try_all(chosen: list[str]) -> None:
    """Try every mutant that is not known to be killed, and append what becomes of it."""
    known, begun = outcomes(), len(outcomes_lines())
    todo = [(module, mutant) for module in chosen for mutant in mutants_of(module)]
    todo = [(module, mutant) for module, mutant in todo if known.get(key_of(module, mutant)) not in KILLED]
    tests = sorted({test for module, _ in todo for test in tests_of(module)})

    def in_functions() -> bool:
        return pytest.main([*SILENT, *tests], plugins=[Session(todo)]) == 0

    if any(mutant.lines for _, mutant in todo) and outcome(in_functions, 1e9) != "survives":
        raise SystemExit(f"These tests fail without a mutant: {' '.join(tests)}")
    done = {json.loads(row)[0] for row in outcomes_lines()[begun:]}
    for module, mutant in todo:
        if key_of(module, mutant) not in done:
            tell(module, mutant, outcome(lambda o=module, m=mutant: passes(o, m), 300.0))


def explained(module: str, mutant: Mutant) -> bool:
    """Whether the reason is known why no test can notice a mutant, by the name of its function."""
    first, last = mutant.lines or (0, 0)
    name = (
        re.search(r"def (\w+)", "\n".join(path_of(module).read_text().splitlines()[first - 1 : last])) if last else None
    )
    key = f"{name[1] if name else 'module'}: {mutant.was} -> {mutant.now}"
    reasons = json.loads(EXPLAINED.read_text())
    return key in reasons["every module"] | reasons.get(module, {})


def main(chosen: list[str]) -> int:
    """Try every mutant; print the survivors and how many there were."""
    for name in HEAVY:
        importlib.import_module(name)
    OUTCOMES.parent.mkdir(exist_ok=True)
    chosen = chosen or modules()
    try_all(chosen)
    known, counts = outcomes(), Counter[str]()
    for module in chosen:
        for mutant in mutants_of(module):
            end = known[key_of(module, mutant)]
            end = "explained" if end == "survives" and explained(module, mutant) else end
            counts[end] += 1
            if end == "survives":
                print(f"survives: {module}.py:{mutant.place[0]}: {mutant.was} -> {mutant.now}")  # noqa: T201
    print(f"{counts.total()} mutants: {dict(counts)}")  # noqa: T201
    return 1 if counts["survives"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
