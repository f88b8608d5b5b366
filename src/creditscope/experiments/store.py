"""The folder of an experiment: the weights of every finished run, and what is known of it.

FOLDER/VARIANT-seed-SEED/weights.safetensors
FOLDER/VARIANT-seed-SEED/run.json       written last, so that its presence means that the run is done
FOLDER/experiment.json                  the result
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from safetensors.torch import save
from torch import nn

from creditscope.errors import DamagedFile, InvalidInput
from creditscope.files import atomic_write
from creditscope.records.folder import OTHER_WEIGHTS, WEIGHTS, file_digest
from creditscope.records.record import Document
from creditscope.training.weights import load_weights, read_safetensors

RUN, RESULT = "run.json", "experiment.json"


class StoredRun(Document):
    """What a store knows of a finished run: the digest of its untrained network and of the code that trained it."""

    noun: ClassVar[str] = "stored run"
    remedy: ClassVar[str] = "remove its folder and run the experiment"
    readable: ClassVar[tuple[int, ...]] = (2,)
    variant: str
    seed: int
    start: str
    code: str
    blocks: tuple[str, ...]
    evaluated: float
    weights_checksum: str = ""


@dataclass(frozen=True, slots=True)
class ExperimentStore:
    """Finished runs of one experiment in a folder."""

    folder: Path

    def place(self, variant: str, seed: int) -> Path:
        """The folder of a run."""
        return self.folder / f"{variant}-seed-{seed}"

    def save(self, network: nn.Module, run: StoredRun) -> None:
        """Write the weights, then the record of the run; each file is complete or absent."""
        place = self.place(run.variant, run.seed)
        tensors = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in network.state_dict().items()}
        content = save(tensors)
        with atomic_write(place / WEIGHTS) as part:
            part.write_bytes(content)
        run.model_copy(update={"weights_checksum": hashlib.sha256(content).hexdigest()}).to_json(place / RUN)

    def finished(self, wanted: StoredRun) -> StoredRun | None:
        """The finished run, None if there is none; one of another network, of other blocks or other code is refused."""
        path = self.place(wanted.variant, wanted.seed) / RUN
        if not path.exists():
            return None
        stored = StoredRun.from_json(path)
        differing = [
            what
            for what, same in (
                ("another network or seed", stored.start == wanted.start),
                ("another make_model or train", stored.code == wanted.code),
                ("other blocks", stored.blocks == wanted.blocks),
            )
            if not same
        ]
        if differing:
            raise InvalidInput(
                f"{path.parent} holds a run of {' and '.join(differing)}.\n"
                "Runs of different recipes would be compared as one method. Choose another store, or remove this one."
            )
        return stored

    def load(self, network: nn.Module, variant: str, seed: int) -> nn.Module:
        """The network with the weights of a finished run."""
        path = self.place(variant, seed) / WEIGHTS
        wanted = StoredRun.from_json(path.parent / RUN).weights_checksum
        if wanted and wanted != file_digest(path):
            raise DamagedFile(
                f"{path}: {OTHER_WEIGHTS}.\nThe experiment would judge another network. Remove {path.parent}."
            )
        load_weights(network, read_safetensors(path), str(path))
        return network
