"""The paper can be reproduced without a clone: the wheel holds its figures and studies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from creditscope_papers.hao2026 import PAPER

ROOT = Path(__file__).parents[3]


def test_the_wheel_carries_the_published_figures_and_every_study(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(ZipFile(wheel).namelist())
    assert "creditscope_papers/hao2026/published.json" in names
    assert {f"creditscope_papers/hao2026/studies/{name}.toml" for name in PAPER.names} <= names
    assert "creditscope/papers/paper.py" in names
