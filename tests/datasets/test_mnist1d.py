"""The dataset inside the package."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from pathlib import Path

import torch

from creditscope.datasets.mnist1d import mnist1d


def test_it_needs_no_folder_and_no_network(tmp_path: Path) -> None:
    data = mnist1d(tmp_path / "never made")
    assert data.train.inputs.shape == (4000, 40)
    assert data.test.inputs.shape == (1000, 40)
    assert not list(tmp_path.iterdir())


def test_these_are_the_tensors_of_which_the_figures_in_the_documentation_speak() -> None:
    assert mnist1d().checksum == "b09ad3e22c854bc5a1948b85c373aab653ceb38c9170f5ed05b7d054e4160db9"


def test_standardising_gives_mean_0_and_variance_1_over_the_training_set() -> None:
    prepared = mnist1d().prepare(mnist1d().train.inputs).double()
    assert abs(prepared.mean().item()) < 1e-6
    assert abs(prepared.square().mean().item() - 1) < 1e-6


def test_training_and_test_signals_are_disjoint() -> None:
    data = mnist1d()
    seen = {hashlib.sha256(row.numpy().tobytes()).digest() for row in data.train.inputs}
    assert len(seen) == 4000
    assert all(hashlib.sha256(row.numpy().tobytes()).digest() not in seen for row in data.test.inputs)


def test_its_makers_and_its_licence_are_named_beside_it() -> None:
    folder = files("creditscope.datasets") / "data"
    attribution = (folder / "mnist1d-ATTRIBUTION.md").read_text(encoding="utf-8")
    assert "Greydanus" in attribution
    assert "Kobak" in attribution
    assert "Apache License" in (folder / "mnist1d-LICENSE.txt").read_text(encoding="utf-8")


def test_labels_are_integers_that_the_loss_accepts() -> None:
    assert mnist1d().train.labels.dtype == torch.int64
