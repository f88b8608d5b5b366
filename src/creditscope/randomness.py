"""The state of torch's random generators: the CPU's, and that of every device in use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

CPU = torch.device("cpu")
RngStates = Mapping[torch.device, Tensor]


def rng_states() -> RngStates:
    """The states of the generators that `torch.manual_seed` seeds, by device."""
    return {
        CPU: torch.get_rng_state(),
        **{device: getattr(torch, device.type).get_rng_state(device) for device in _devices_in_use()},
    }


def set_rng_states(states: RngStates) -> None:
    """Put generators into the given states."""
    for device, state in states.items():
        if device == CPU:
            torch.set_rng_state(state)
        else:
            getattr(torch, device.type).set_rng_state(state, device)


@contextmanager
def forked_rng() -> Iterator[None]:
    """Restore the state of every generator after the block."""
    states = rng_states()
    try:
        yield
    finally:
        set_rng_states(states)


def _devices_in_use() -> Iterator[torch.device]:
    """Devices besides the CPU; one that the process has not used yet would be started, and CUDA then cannot fork."""
    for kind in ("cuda", "mps", "xpu", torch._C._get_privateuse1_backend_name()):
        module: Any = getattr(torch, kind, None)
        if hasattr(module, "get_rng_state") and getattr(module, "is_initialized", lambda: True)():
            yield from (torch.device(kind, index) for index in range(module.device_count()))
