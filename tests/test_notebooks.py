"""The notebooks: stripped of outputs, valid, and run from the first cell to the last without a network."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NAMES = ["audit-a-network-you-trained", "is-depth-used"]


def cells(name: str) -> list[dict[str, Any]]:
    document = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    found: list[dict[str, Any]] = document["cells"]
    return found


def test_the_notebooks_are_these() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_stripped_and_cells_have_ids_of_their_own(name: str) -> None:
    found = cells(name)
    assert len({cell["id"] for cell in found}) == len(found)
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in found if "outputs" in cell)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_from_the_first_cell_to_the_last(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module, state = ModuleType(name.replace("-", "_")), torch.random.get_rng_state()
    try:
        for cell in cells(name):
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), name, "exec"), module.__dict__)
    finally:
        torch.random.set_rng_state(state)
    shown = capsys.readouterr().out
    assert "D3" in shown
    if name == "is-depth-used":
        assert set(module.__dict__["results"]) == {"bp", "dfa"}
