"""Which way of reporting walks back how many seeds of which method?  For the chart of the decision utility."""

from __future__ import annotations

from creditscope.report.charts_margin import Decision
from creditscope.reproduction.book import Book
from creditscope.reproduction.experiments.main_audit import METHODS
from creditscope.reproduction.strategies import STRATEGIES


def decisions(book: Book) -> list[Decision]:
    """One for every method that was run and every way of reporting; seeds without an answer are not counted."""
    found = []
    for method in METHODS:
        row = book.audited("decision_utility", {"method": method})
        if row is None:
            continue
        runs = [(seed, record) for seed in row.seeds if (record := book.record(seed.key)) is not None]
        for name, walks_back in STRATEGIES.items():
            answers = [answer for seed, record in runs if (answer := walks_back(seed, record)) is not None]
            if answers:
                found.append(Decision(row.label, name, sum(answers), len(answers)))
    return found
