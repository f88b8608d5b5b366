"""A JAX network is audited by its arrays, and gets the numbers of its PyTorch copy."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.test_guides import ran
from torch import Tensor, nn

import creditscope
from creditscope.batch import Batch
from creditscope.records.report import Report
from creditscope.verdict import Status

pytestmark = [pytest.mark.thirdparty, pytest.mark.filterwarnings("ignore")]
NEEDS_NETWORK = {"D6", "D7", "D8", "D9", "D10"}


class Block(nn.Module):
    """gelu(LN(h) W₁) W₂, the residual branch of the guide's network."""

    def __init__(self, block: dict[str, Any]) -> None:
        super().__init__()
        self.w1, self.w2 = (nn.Parameter(torch.from_dlpack(block[name]).clone()) for name in ("w1", "w2"))

    def forward(self, h: Tensor) -> Tensor:
        normed = torch.nn.functional.layer_norm(h, h.shape[-1:])
        return torch.nn.functional.gelu(normed @ self.w1, approximate="tanh") @ self.w2  # as jax.nn.gelu


class Copy(nn.Module):
    """The guide's network in PyTorch, with the same weights."""

    def __init__(self, params: dict[str, Any]) -> None:
        super().__init__()
        self.embed, self.head = (nn.Parameter(torch.from_dlpack(params[name]).clone()) for name in ("embed", "head"))
        self.blocks = nn.ModuleList(Block(block) for block in params["blocks"])

    def forward(self, x: Tensor) -> Tensor:
        h = x @ self.embed
        for block in self.blocks:
            h = h + block(h)
        return torch.nn.functional.layer_norm(h, h.shape[-1:]) @ self.head


def trained(guide: dict[str, Any], steps: int = 60) -> Any:
    """Weights after some steps of gradient descent in JAX."""
    jax, params = guide["jax"], guide["params"]
    shifts = [jax.numpy.zeros((250, guide["WIDTH"]))] * (guide["DEPTH"] + 1)
    slope = jax.jit(jax.grad(lambda p, x, y: guide["total_loss"](shifts, p, x, y)[0] / 250))
    for index in range(steps):
        x, y = guide["batches"][index % 4]
        params = jax.tree.map(lambda weight, step: weight - 0.1 * step, params, slope(params, x, y))
    return params


def feedback(guide: dict[str, Any]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(10, guide["WIDTH"], generator=generator) / 10**0.5 for _ in range(guide["DEPTH"] + 1)]


def close(ours: Report, theirs: Report) -> None:
    """All findings that arrays allow, and all measures, agree to 1e-5."""
    for code in ours.findings.keys() - NEEDS_NETWORK:
        one, other = ours.findings[code], theirs.findings[code]
        assert one.status == other.status
        if one.value is not None and other.value is not None:
            assert one.value == pytest.approx(other.value, rel=1e-5, abs=1e-6), code
        assert one.per_layer == pytest.approx(other.per_layer, rel=1e-5, abs=1e-6), code
    for name, measure in ours.measures.items():
        assert measure.value == pytest.approx(theirs.measures[name].value, rel=1e-5, abs=1e-6), name
        assert measure.per_layer == pytest.approx(theirs.measures[name].per_layer, rel=1e-5, abs=1e-6), name
    assert ours.verdict.text == theirs.verdict.text


def test_the_guide_runs_and_its_network_scores_as_its_copy_in_pytorch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    jax = pytest.importorskip("jax")
    monkeypatch.chdir(tmp_path)
    guide = ran("audit-a-jax-network.md", monkeypatch)
    assert "JAX, untrained" in capsys.readouterr().out
    assert len(list(tmp_path.glob("batch-*.npz"))) == len(guide["batches"]) == 4
    close(creditscope.audit_arrays(sorted(tmp_path.iterdir()), control_accuracy=0.1), guide["report"])

    params, matrices = trained(guide), feedback(guide)
    copy = Copy(params)
    batches = [Batch(torch.from_dlpack(x), torch.from_dlpack(y).long()) for x, y in guide["batches"]]

    def dfa(batch: Batch) -> list[Tensor]:
        error = torch.softmax(copy(batch.inputs).detach(), 1) - torch.nn.functional.one_hot(batch.labels, 10)
        return [error @ matrix for matrix in matrices]

    def dumped(x: Any, y: Any) -> dict[str, Any]:
        arrays = guide["dump"](params, x, y)
        error = jax.nn.softmax(arrays["logits"]) - jax.nn.one_hot(y, 10)
        return arrays | {f"a_{layer}": error @ matrix.numpy() for layer, matrix in enumerate(matrices)}

    ours = creditscope.audit_arrays((dumped(x, y) for x, y in guide["batches"]), control_accuracy=0.1)
    theirs = creditscope.audit(copy, batches, blocks="blocks", credit=dfa, control_accuracy=0.1)
    close(ours, theirs)
    assert ours.accuracy is not None
    assert ours.accuracy[0] > 0.2
    assert {code for code, finding in ours.findings.items() if finding.status is Status.SKIPPED} == NEEDS_NETWORK


def test_half_precision_and_traced_dtypes_of_jax_are_taken() -> None:
    numbers = pytest.importorskip("jax.numpy")
    h = numbers.linspace(1, 2, 64, dtype=numbers.bfloat16).reshape(16, 4)
    report = creditscope.audit_arrays(hiddens=[h, 3 * h], gradients=[h, h])
    assert report.findings["D1"].value == pytest.approx(3, rel=0.02)
    assert report.provenance.dtype == "bfloat16"
