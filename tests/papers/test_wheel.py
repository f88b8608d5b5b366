"""The package can be reproduced from without a clone: the wheel holds figures and studies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from creditscope.papers.experiments import in_order

ROOT = Path(__file__).parents[2]


def test_the_wheel_carries_the_published_figures_and_every_study(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(ZipFile(wheel).namelist())
    assert "creditscope/papers/published.json" in names
    assert {f"creditscope/studies/{one.name}.toml" for one in in_order()} <= names
