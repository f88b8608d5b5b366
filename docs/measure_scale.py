"""Measures what one scale factor does to a real network, for the page that lets a reader drag it: `make explore`.

A residual MLP of four blocks is trained by backprop on MNIST-1D. Then its last block is changed so that the state
behind it is c times as large, h_4 = c (h_3 + f_3(h_3)). The LayerNorm before the read-out takes c away again. The
credit that is compared with the gradient is the gradient itself: Γ is 1, and whatever else is printed is an artefact.
"""

from __future__ import annotations

import copy
import json
import platform
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from creditscope import __version__
from creditscope.evidence.alignment import AlignmentLedger, paired_vectors
from creditscope.evidence.ledger import Ledger
from creditscope.files import write_text
from creditscope.methods.bound_rule import BoundRule
from creditscope.networks.staged import StagedNetwork
from creditscope.provenance import source_commit
from creditscope.runs.run import load_data, train
from creditscope.runs.spec import RunSpec
from creditscope.stream.find import find_stream
from creditscope.stream.trace import capture
from creditscope.training.checkpoint import Checkpoint

RESULT = Path(__file__).resolve().parents[1] / "results" / "scale_of_a_block.json"
SPEC = RunSpec(method="bp", epochs=60, seed=42, network_options={"d": 32, "depth": 4})
EXPONENTS = [step / 4 for step in range(41)]  # of ten: c from 1 to 1e10


class Rescaled(nn.Module):
    """A block whose branch makes the next state c times as large: c (h + f(h)) - h."""

    def __init__(self, block: nn.Module, factor: float) -> None:
        super().__init__()
        self.block, self.factor = block, factor

    def forward(self, state: Tensor) -> Tensor:
        """The branch of the residual stream."""
        out: Tensor = self.factor * (state + self.block(state)) - state
        return out


def rescaled(network: StagedNetwork, factor: float) -> StagedNetwork:
    """A copy whose last block is rescaled."""
    other = copy.deepcopy(network)
    other.blocks[-1] = Rescaled(other.blocks[-1], factor)
    return other


def measured(checkpoint: Checkpoint, factor: float) -> dict[str, float]:
    """What the audit measures at the deepest state, over the whole test set."""
    network = rescaled(checkpoint.network, factor).eval()
    credit = BoundRule(checkpoint.rule, network, checkpoint.feedback, checkpoint.example)
    stream = find_stream(network)
    ledger, aligned = Ledger(stream), AlignmentLedger()
    right = images = 0
    for batch in load_data(SPEC).test_batches(125):
        trace = capture(stream, batch)
        ledger.add(trace)
        aligned.add(*paired_vectors(stream, credit.signals(batch), trace.gradients))
        right += int((trace.logits.argmax(1) == batch.labels).sum())
        images += len(batch.labels)
    evidence, alignment = ledger.evidence(), aligned.alignment()
    return {
        "state": evidence.hidden_medians[-1].item(),
        "gradient": evidence.gradient_medians[-1].item() / 128,  # of the mean loss of 128 images, as D2 has it
        "clamped": alignment.clamped[-1],
        "exact": alignment.exact[-1],
        "sensitivity": evidence.sensitivities[-1].median().item(),
        "accuracy": right / images,
    }


def result() -> dict[str, Any]:
    """The whole grid, with its spec and versions."""
    checkpoint = train(SPEC)
    return {
        "spec": SPEC.model_dump(mode="json"),
        "commit": source_commit(),
        "versions": {"creditscope": __version__, "torch": torch.__version__, "python": platform.python_version()},
        "images": len(load_data(SPEC).test.labels),
        "exponents": EXPONENTS,
        "rows": [measured(checkpoint, 10**exponent) for exponent in EXPONENTS],
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    write_text(RESULT, json.dumps(result(), indent=1) + "\n")
