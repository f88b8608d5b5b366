"""What every test shares: one thread, repeatable examples, and a reason wherever something needed is absent."""

from __future__ import annotations

import importlib.util
import os
import shutil

import pytest
import torch
from hypothesis import settings

from creditscope.registry import Registry

torch.set_num_threads(1)

settings.register_profile("fast", deadline=None, derandomize=True, database=None, max_examples=25)
settings.register_profile("thorough", deadline=None, print_blob=True, database=None, max_examples=100)
settings.register_profile("fuzz", parent=settings.get_profile("thorough"), max_examples=20_000)
settings.load_profile("fast")


def missing(marker: str) -> str | None:
    """Why tests with this marker cannot run here, and what to do about it; None if they can."""
    if marker == "browser" and not importlib.util.find_spec("playwright"):
        return "playwright is not installed: make install"
    if marker == "browser" and not shutil.which("chromium"):
        return "chromium is not installed: make system"
    if marker == "ray" and not importlib.util.find_spec("ray"):
        return "ray is not installed: make test-all"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what cannot run here, with the reason; under CREDITSCOPE_REQUIRE_ALL=1 let it fail instead."""
    if os.environ.get("CREDITSCOPE_REQUIRE_ALL") == "1":
        return
    reasons = {marker: reason for marker in ("browser", "ray") if (reason := missing(marker))}
    for item in items:
        for marker, reason in reasons.items():
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def only(monkeypatch):
    """A program whose single command does what the test says."""

    def put(function):
        registry = Registry("command", "creditscope.commands")
        registry._complete = True
        registry.add("act", function)
        registry.add("rest", lambda: 0)
        monkeypatch.setattr("creditscope.cli.commands", registry)

    return put
