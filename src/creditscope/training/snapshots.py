"""Snapshots: the whole state of an unfinished run in one file, so that a resumed run ends with the same bits."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from creditscope.errors import BadFile, DamagedFile
from creditscope.methods.rule import Feedback
from creditscope.reading import ZEROS, parse_json, sealed
from creditscope.records.folder import replace_snapshot, snapshot_damage
from creditscope.records.run import HistoryRow


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a run between two epochs.

    run      a hash of all that decides the run
    tensors  by name: network., feedback., auxiliary., optimiser., learner., generator
    history  the rows so far
    """

    run: str
    tensors: dict[str, Tensor]
    history: tuple[HistoryRow, ...]

    def part(self, name: str) -> dict[str, Tensor]:
        """The tensors of one part, without its prefix."""
        prefix = f"{name}."
        return {key.removeprefix(prefix): t for key, t in self.tensors.items() if key.startswith(prefix)}

    def restore(
        self, network: nn.Module, feedback: Feedback, optimiser: torch.optim.Optimizer, generator: torch.Generator
    ) -> Feedback:
        """Put the state back; the feedback comes back as a new record."""
        device = next(network.parameters()).device
        network.load_state_dict(self.part("network"))
        _unflatten(optimiser, self.part("optimiser"))
        if feedback.networks is not None:
            feedback.networks.load_state_dict(self.part("auxiliary"))
        if feedback.optimiser is not None:
            _unflatten(feedback.optimiser, self.part("learner"))
        generator.set_state(self.tensors["generator"])
        fixed = {name: tensor.to(device) for name, tensor in self.part("feedback").items()}
        return Feedback(fixed, feedback.networks, feedback.optimiser)


def gathered(
    network: nn.Module, feedback: Feedback, optimiser: torch.optim.Optimizer, generator: torch.Generator
) -> dict[str, Tensor]:
    """The tensors of a snapshot: those of the run itself, not copies."""
    parts = {
        "network": dict(network.state_dict()),
        "feedback": dict(feedback.tensors),
        "auxiliary": dict(feedback.networks.state_dict()) if feedback.networks is not None else {},
        "optimiser": _flat(optimiser),
        "learner": _flat(feedback.optimiser) if feedback.optimiser is not None else {},
    }
    tensors = {f"{part}.{name}": tensor for part, named in parts.items() for name, tensor in named.items()}
    return {**tensors, "generator": generator.get_state()}


def write_snapshot(path: Path, snapshot: Snapshot) -> None:
    """One safetensors file with the history, the run's identity and a checksum of the file in its header."""
    rows = json.dumps([row.model_dump_json() for row in snapshot.history])
    contiguous = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in snapshot.tensors.items()}
    replace_snapshot(path, sealed(save(contiguous, {"history": rows, "run": snapshot.run, "checksum": ZEROS})))


def read_snapshot(path: Path) -> Snapshot:
    """The state of an interrupted run; a file that is not what was written, to the last bit, is refused."""
    reason = snapshot_damage(path)
    if reason:
        raise DamagedFile(f"{path} is not a snapshot of a run: {reason}.\nRemove it to start the run again.")
    try:
        with safe_open(path, "pt") as file:
            header = file.metadata() or {}
            rows = [HistoryRow.model_validate_json(row) for row in parse_json(header["history"], "its history")]
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return Snapshot(header["run"], tensors, tuple(rows))
    except (SafetensorError, OSError, KeyError, TypeError, ValidationError, BadFile) as error:
        raise DamagedFile(f"{path} is not a snapshot of a run: {error}.\nRemove it to start the run again.") from error


def _flat(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    state = optimiser.state_dict()["state"]
    return {f"{index}.{key}": value for index, named in state.items() for key, value in named.items()}


def _unflatten(optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = tensor
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
