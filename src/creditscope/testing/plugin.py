"""The pytest plugin: keeps the pages of audits whose assertion failed.

It is loaded whenever pytest starts, so it imports neither torch nor anything else of creditscope until an audit fails.
PYTEST_DONT_REWRITE: there is no assert in here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from creditscope.records.report import Report

ASSERTION = "creditscope.testing.assertion"  # imported by whoever uses it
TITLE = "creditscope audit"
PAGES = pytest.StashKey[list[Path]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin."""
    group = parser.getgroup("creditscope")
    group.addoption(
        "--creditscope-pages",
        metavar="FOLDER",
        help="write the page (HTML) and the report (JSON) of every failed assert_audit into FOLDER",
    )
    group.addoption(
        "--creditscope-all-pages",
        action="store_true",
        help="with --creditscope-pages: those of audits that pass too",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Collect the reports of all assertions of a test where they were asked for."""
    everything = item.config.getoption("--creditscope-all-pages") and item.config.getoption("--creditscope-pages")
    if not everything:
        return (yield)
    from creditscope.testing.assertion import listeners

    reports: list[Report] = []
    listeners.append(reports.append)
    try:
        return (yield)
    finally:
        listeners.remove(reports.append)
        for report in reports:
            _keep(item, report)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the audit to the report of a test that failed by one."""
    outcome = yield
    report = _failed_audit(call)
    if report is None:
        return outcome
    from creditscope.report.text import page

    outcome.sections.append((TITLE, page(report, 80)))
    if item.config.getoption("--creditscope-pages") and not item.config.getoption("--creditscope-all-pages"):
        _keep(item, report)
    for path in item.stash.get(PAGES, []):
        item.user_properties.append(("creditscope_page", str(path)))  # reaches the report of the teardown, and JUnit
        outcome.sections.append((TITLE, f"page: {path}"))
    return outcome


def _failed_audit(call: pytest.CallInfo[None]) -> Report | None:
    """The report behind the failure of a call; None if it did not fail by assert_audit."""
    assertion = sys.modules.get(ASSERTION)
    if assertion is None or call.excinfo is None or not call.excinfo.errisinstance(assertion.AuditFailed):
        return None
    report: Report = call.excinfo.value.report  # type: ignore[attr-defined]
    return report


def _keep(item: pytest.Item, report: Report) -> None:
    """Write page and JSON of an audit, named after its test."""
    folder = Path(item.config.getoption("--creditscope-pages"))
    pages = item.stash.setdefault(PAGES, [])
    count = f"-{len(pages) + 1}" if pages else ""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", item.nodeid).strip("-.")[-120:] + count
    report.to_json(folder / f"{name}.json")
    pages.append(report.to_html(folder / f"{name}.html"))
