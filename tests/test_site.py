"""The site: its generated pages are current, and it builds without a warning and without a network."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from docs import measure_scale
from docs.generate import api, explore, inventory

import creditscope
from creditscope.runs.run import train

ROOT = Path(__file__).parents[1]


def test_the_api_page_lists_every_public_name_and_is_current() -> None:
    assert api.PATH.read_text(encoding="utf-8") == api.page(), "run make docs"
    for name in creditscope.__all__:
        if name != "__version__":
            assert f".{name}\n" in api.page(), name


def test_the_inventory_of_torch_is_current() -> None:
    assert inventory.PATH.read_bytes() == inventory.inventory(), "run make docs"


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("furo")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "-c", "docs"]
    built = subprocess.run(
        [*command, "-d", str(tmp_path / "trees"), ".", str(tmp_path / "site")], cwd=ROOT, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "site" / "docs" / "index.html").exists()
    assert 'href="https://docs.pytorch.org' in (tmp_path / "site/docs/reference/api.html").read_text(encoding="utf-8")


def test_the_page_with_the_scale_to_drag_is_that_of_the_measured_grid() -> None:
    result = json.loads(explore.RESULT.read_text(encoding="utf-8"))
    assert explore.PATH.read_text(encoding="utf-8") == explore.page(result), "run make docs"
    rows = result["rows"]
    assert len({row["accuracy"] for row in rows}) == 1
    assert max(row["sensitivity"] for row in rows) < 1.001 * min(row["sensitivity"] for row in rows)
    assert all(row["exact"] == pytest.approx(1.0) for row in rows)
    assert rows[-1]["clamped"] < 1e-5 < 0.99 < rows[0]["clamped"]


@pytest.mark.slow
def test_the_measured_grid_is_what_the_real_network_gives() -> None:
    checkpoint = train(measure_scale.SPEC)
    result = json.loads(explore.RESULT.read_text(encoding="utf-8"))
    for exponent in (0.0, 5.0, 10.0):
        row = result["rows"][result["exponents"].index(exponent)]
        assert measure_scale.measured(checkpoint, 10**exponent) == pytest.approx(row, rel=1e-3)
