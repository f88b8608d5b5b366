"""Which way of reporting walks back how many seeds of which method?  For the chart of the decision utility."""

from __future__ import annotations

from creditscope.papers.book import Book
from creditscope.papers.experiments.decision_utility import seed_by_seed
from creditscope.papers.experiments.main_audit import METHODS
from creditscope.papers.strategies import STRATEGIES
from creditscope.report.charts.margins import Decision


def decisions(book: Book) -> list[Decision]:
    """One for every method that was run and every way of reporting; seeds without an answer are not counted."""
    found = []
    for method in METHODS:
        row = book.audited("decision_utility", {"method": method})
        if row is None:
            continue
        for name in STRATEGIES:
            answers = [answer for answer in seed_by_seed(book, method, name) if answer is not None]
            if answers:
                found.append(Decision(row.label, name, sum(answers), len(answers)))
    return found
