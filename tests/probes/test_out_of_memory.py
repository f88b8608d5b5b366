"""Memory that runs out in a probe is an error of the machine, not a property of the model."""

from __future__ import annotations

import pytest
import torch
from tests.probes.subjects import backprop, batches, generator, network, pieces
from torch import Tensor, nn

from creditscope.probes.hidden_backprop import hidden_backprop
from creditscope.probes.interventions import intervene
from creditscope.probes.precision import precision
from creditscope.probes.source import FunctionSource
from creditscope.stream.find import find_stream
from creditscope.stream.trace import cross_entropy

ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory"),
]


class Large(nn.Module):
    """A layer for which memory runs out in one precision; in the other it works, or raises what it is given."""

    def __init__(self, error: RuntimeError, dtype: torch.dtype, otherwise: Exception | None = None) -> None:
        super().__init__()
        self.error, self.dtype, self.otherwise = error, dtype, otherwise

    def forward(self, state: Tensor) -> Tensor:
        if state.dtype == self.dtype:
            raise self.error
        if self.otherwise is not None:
            raise self.otherwise
        return state


def probe_precision(net):
    return precision(find_stream(net), pieces(net, backprop(net), batches(16, 16)), cross_entropy)


def probe_interventions(net):
    return intervene(find_stream(net), pieces(net, backprop(net), batches(16, 16)), cross_entropy, generator())


def probe_hidden_backprop(net):
    (batch,) = batches(16, 16)
    source = FunctionSource(backprop(net))
    return hidden_backprop(
        find_stream(net), source, list(net.blocks), batch, loss_fn=cross_entropy, generator=generator()
    )


@pytest.mark.parametrize("probe", [probe_precision, probe_interventions, probe_hidden_backprop])
@pytest.mark.parametrize("error", ERRORS, ids=["device", "CPU"])
def test_memory_that_runs_out_in_float64_stops_the_probe_and_leaves_the_model_in_its_precision(probe, error):
    net = network()
    net.out_ln = nn.Sequential(net.out_ln, Large(error, torch.float64))
    with pytest.raises(RuntimeError) as raised:
        probe(net)
    assert raised.value is error
    assert {p.dtype for p in net.parameters()} == {torch.float32}


@pytest.mark.parametrize("error", ERRORS, ids=["device", "CPU"])
def test_memory_that_runs_out_in_single_precision_stops_the_probe_of_hidden_backprop(error):
    net = network()
    net.out_ln = nn.Sequential(net.out_ln, Large(error, torch.float32, otherwise=TypeError("float32 only")))
    with pytest.raises(RuntimeError) as raised:
        probe_hidden_backprop(net)
    assert raised.value is error
