"""A trained run as one folder: weights.safetensors (network, feedback, auxiliary networks) and record.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from creditscope.batch import Batch
from creditscope.credit import CreditSource, NoCredit
from creditscope.errors import BadFile
from creditscope.methods.bound_rule import BoundRule
from creditscope.methods.rule import CreditRule, Feedback
from creditscope.networks.staged import StagedNetwork
from creditscope.records.folder import WEIGHTS, write_run
from creditscope.records.run import RunRecord
from creditscope.training.weights import PARTS, load_weights


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A trained network with its rule, the feedback that trained it, and the record of its run.

    network  `network.own` is the model itself where it is not one of our networks
    missing  names of feedback and auxiliary tensors that the file it came from does not hold
    """

    network: StagedNetwork
    rule: CreditRule
    feedback: Feedback
    record: RunRecord
    example: Batch
    missing: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Checkpoint({self.rule.innermost.name!r}, {self.network.title}, accuracy {self.record.accuracy:.4g})"

    def credit(self) -> CreditSource:
        """The credit that trained this network, as `audit(..., credit=)` takes it; `NoCredit` if it is lost.

        Feedback drawn anew would give other credit than the one that trained the network, so there is none then; nor
        where an auxiliary network diverged, whose credit would be NaN.
        """
        if self.missing:
            return NoCredit(f"the checkpoint does not hold {_first_of(self.missing)}")
        diverged = [name for name, tensor in self._named("feedback", "auxiliary") if not bool(tensor.isfinite().all())]
        if diverged:
            return NoCredit(f"not every number in {_first_of(diverged)} is finite")
        return BoundRule(self.rule, self.network, self.feedback, self.example)

    def save(self, folder: Path | str) -> Path:
        """Write the folder of the run, and return its path."""
        write_run(Path(folder), save(self.tensors()), self.record)
        return Path(folder)

    def tensors(self) -> dict[str, Tensor]:
        """Copies of every tensor by name, prefixed with network., feedback. or auxiliary."""
        return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in self._named(*PARTS)}

    def _named(self, *wanted: str) -> Iterator[tuple[str, Tensor]]:
        extra = self.feedback.networks
        parts = {
            "network": self.network.own.state_dict(),
            "feedback": self.feedback.tensors,
            "auxiliary": extra.state_dict() if extra is not None else {},
        }
        return ((f"{part}.{name}", tensor) for part in wanted for name, tensor in parts[part].items())


def _first_of(names: Sequence[str]) -> str:
    return f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else names[0]


def read_tensors(folder: Path | str) -> dict[str, dict[str, Tensor]]:
    """The parts of a checkpoint's weights file: network, feedback, auxiliary (empty where missing)."""
    path = Path(folder) / WEIGHTS
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise BadFile(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.\n"
            "There are no weights to audit. Train the run again."
        ) from error
    parts: dict[str, dict[str, Tensor]] = {part: {} for part in PARTS}
    for name, tensor in tensors.items():
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[rest] = tensor
    return parts


def restored(
    drawn: Feedback, parts: Mapping[str, Mapping[str, Tensor]], source: str
) -> tuple[Feedback, tuple[str, ...]]:
    """Feedback with the tensors of a file in place of those drawn, and the names of those that the file does not hold.

    If any is missing, no drawn tensor is left in their place.
    """
    auxiliary = drawn.networks.state_dict() if drawn.networks is not None else {}
    wanted = {f"feedback.{name}" for name in drawn.tensors} | {f"auxiliary.{name}" for name in auxiliary}
    missing = tuple(sorted(wanted - {f"{part}.{name}" for part, named in parts.items() for name in named}))
    if missing:
        return Feedback(dict(parts["feedback"])), missing
    if drawn.networks is not None:
        load_weights(drawn.networks, parts["auxiliary"], f"{source} (auxiliary networks)")
    return Feedback(dict(parts["feedback"]), drawn.networks, drawn.optimiser), ()
