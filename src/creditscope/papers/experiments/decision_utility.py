"""Experiment 11: decision utility."""

from __future__ import annotations

from collections.abc import Iterator

from creditscope.papers.book import Book
from creditscope.papers.claims import all_of
from creditscope.papers.experiments import experiment
from creditscope.papers.experiments.main_audit import METHODS
from creditscope.papers.quantities import Quantity
from creditscope.papers.sheet import Line, computed, twins
from creditscope.papers.strategies import STRATEGIES

JUDGED = tuple(method for method in METHODS if method != "fa")  # the five of the published count
STANDARD = ("accuracy", "accuracy + Γ")
WALKED = Quantity("walked_back", "methods walked back on every seed, of 5", "count")


@experiment("decision_utility", number=11, question="Which way of reporting walks back which method?")
def decision_utility(book: Book) -> Iterator[Line]:
    """One row for every way of reporting; FA is named, but not counted, as it was not among the published five."""
    rows = [row for method in METHODS if (row := book.audited("decision_utility", {"method": method})) is not None]
    keys = [seed.key for row in rows for seed in row.seeds]
    against = tuple(key for row in rows for key in twins(row.seeds))
    partly = [row.spec.method for row in rows if row.missing]
    for name in STRATEGIES:
        found = {method: walked_back(book, method, name) for method in METHODS}
        back = [method for method, is_back in found.items() if is_back]
        unknown = [method for method in JUDGED if found[method] is None]
        whole = not unknown and not set(partly) & set(JUDGED)
        count = [float(sum(method in JUDGED for method in back))] if whole else []
        told = ("so far: " if unknown or partly else "") + (", ".join(back) or "nobody")
        gaps = {"not run, or not measured": unknown, "not on every seed yet": partly}
        notes = [f"{what}: {', '.join(methods)}" for what, methods in gaps.items() if methods]
        notes += [_already(book, method) for method in back if name not in STANDARD]
        note = "; ".join(one for one in notes if one)
        texts = (told,) if rows else ()
        yield computed("decision_utility", name, WALKED, count, keys, against=against, texts=texts, note=note)


def _already(book: Book, method: str) -> str:
    """On how many seeds accuracy and Γ walk a method back before any diagnostic is asked; nothing if on none."""
    found = seed_by_seed(book, method, STANDARD[-1])
    count = sum(answer is True for answer in found)
    return f"{method} on {count} of {len(found)} seeds by accuracy or Γ alone" if count else ""


def walked_back(book: Book, method: str, strategy: str) -> bool | None:
    """Whether a way of reporting walks a method back on every seed that was run; None where that is not known."""
    found = seed_by_seed(book, method, strategy)
    return all_of(found) if found else None


def seed_by_seed(book: Book, method: str, strategy: str) -> list[bool | None]:
    """Whether a way of reporting walks a method back, for every seed that was run."""
    row = book.audited("decision_utility", {"method": method})
    seeds = row.seeds if row is not None else ()
    runs = [(seed, record) for seed in seeds if (record := book.record(seed.key)) is not None]
    return [STRATEGIES[strategy](seed, record) for seed, record in runs]
