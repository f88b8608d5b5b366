"""The site: its generated pages are current, and it builds without a warning and without a network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from docs.generate import api, inventory

import creditscope

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
