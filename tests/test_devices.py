"""Everything that runs on a device runs on the pretended one, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.devices.conftest import ASKED

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_pretended_device_gives_the_numbers_of_the_cpu() -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "slow or not slow",
        "tests/devices",
    ]
    outcome = subprocess.run(
        command, cwd=ROOT, env={**os.environ, ASKED: "1"}, capture_output=True, text=True, check=False, timeout=600
    )
    assert outcome.returncode == 0, outcome.stdout[-4000:] + outcome.stderr[-1000:]
    assert " passed" in outcome.stdout
