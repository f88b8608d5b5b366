"""A trained-looking network, its weights in every form, and a few images, in a folder of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import save_file

from creditscope.cli import run
from creditscope.networks.build import build


class Outcome(NamedTuple):
    """What a command line gave."""

    code: int
    out: str
    err: str


@pytest.fixture
def creditscope(capsys, monkeypatch) -> Callable[..., Outcome]:
    """Run a command line in this process."""
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments: object) -> Outcome:
        code = run([str(argument) for argument in arguments])
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The current folder: weights.safetensors of a small residual MLP, and batches.safetensors of 300 images."""
    monkeypatch.chdir(tmp_path)
    network = build("resmlp", 6, 3, 0, d=8, depth=2)
    save_file(network.state_dict(), "weights.safetensors")
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(300, 6, generator=generator)
    save_file({"inputs": inputs, "labels": torch.arange(300) % 3}, "batches.safetensors")
    return tmp_path


@pytest.fixture
def audited(folder, creditscope) -> Callable[..., Outcome]:
    """Audit the folder's network; later options stand after the usual ones."""
    usual = ("--network", "resmlp", "--option", "d=8", "--option", "depth=2", "--batches", "batches.safetensors")
    return lambda *more, weights="weights.safetensors": creditscope("audit", weights, *usual, *more)
