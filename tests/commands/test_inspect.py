"""`creditscope inspect` shows the stream that an audit would see, and how to name another one."""

from __future__ import annotations

from pathlib import Path

import pytest

MODELS = """
from torch import nn

class Skip(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(8, 8), nn.Tanh())

    def forward(self, h):
        return h + self.f(h)

def deep(depth=2):
    return nn.Sequential(nn.Linear(6, 8), *[Skip() for _ in range(depth)], nn.Linear(8, 3))

class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.outlet = nn.Linear(8, 3)

    def forward(self, ids):
        return self.outlet(self.encoder(self.words(ids)).mean(1))

def configured():
    model = deep()
    model.default_cfg = {"input_size": (6,)}
    return model

def dummy():
    import torch
    model = Words()
    model.dummy_inputs = {"ids": torch.zeros(2, 5).long()}
    return model

class SideTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.main, self.side = deep(depth=2), deep(depth=5)

    def forward(self, x):
        return self.main(x) + 0.05 * self.side(x)

class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = deep(), deep()
        self.right.load_state_dict(self.left.state_dict())  # the same influence

    def forward(self, x):
        return self.left(x) + self.right(x)
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inspected_models.py").write_text(MODELS)
    return tmp_path


def test_the_tree_shows_blocks_states_and_how_to_name_others(models, creditscope):
    found = creditscope("inspect", "inspected_models:deep", "--input", "6", "--option", "depth=3")
    assert found.code == 0, found.err
    assert found.out.splitlines()[:9] == [
        "Sequential: a stream of 3 blocks (Skip)",
        "├─ h_0   (N, 8)",
        "│     1  Skip",
        "├─ h_1   (N, 8)",
        "│     2  Skip",
        "├─ h_2   (N, 8)",
        "│     3  Skip",
        "├─ h_3   (N, 8)",
        "└─ logits (N, 3)",
    ]
    assert "creditscope inspect inspected_models:deep --blocks PATH" in found.out


def test_tokens_are_given_as_numbers_and_the_read_rule_is_explained(models, creditscope):
    found = creditscope("inspect", "inspected_models:Words", "--input", "5", "--tokens", "50")
    assert found.code == 0, found.err
    assert "│     encoder.layers.1  TransformerEncoderLayer" in found.out
    assert "├─ h_2   (N, 5, 8)" in found.out
    assert "State vector: mean over tokens (the head reads several tokens)" in found.out
    named = creditscope("inspect", "inspected_models:Words", "--input", "5", "--tokens", "50", "--read", "1")
    assert "State vector: token 1" in named.out


@pytest.mark.parametrize("name", ["configured", "dummy"])
def test_a_model_that_says_what_it_takes_needs_no_shape(models, creditscope, name):
    assert creditscope("inspect", f"inspected_models:{name}").code == 0


def test_named_blocks_are_looked_at_instead(models, creditscope):
    found = creditscope("inspect", "inspected_models:deep", "--input", "6", "--blocks", "0,2")
    assert found.out.startswith("Sequential: a stream of 2 blocks (Linear or Skip)\n├─ h_0   (N, 6)")


def test_streams_that_were_not_taken_are_named_with_their_influence(models, creditscope):
    found = creditscope("inspect", "inspected_models:SideTower", "--input", "6")
    assert "SideTower: a stream of 2 blocks (Skip)" in found.out, found.err
    assert "Other streams: influence of this one " in found.out
    assert 'blocks=["side.1", "side.2", ..., "side.5"] (5 x Skip, ' in found.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Towers", "--input", "6"), "has 2 runs of blocks that could be its stream"),
        (("deep",), "Cannot infer the input shape of Sequential"),
        (("deep", "--input", "6xx"), "--input 6xx is not a shape"),
        (("deep", "--input", "0"), "--input 0 is not a shape"),
        (("deep", "--input", "7"), "Sequential cannot take inputs of shape (2, 7)"),
        (("dep", "--input", "6"), "Did you mean 'deep'?"),
        (("deep", "--input", "6", "--blocks", "9"), "no module in Sequential called '9'"),
    ],
)
def test_what_cannot_be_shown_is_explained(models, creditscope, arguments, message):
    found = creditscope("inspect", f"inspected_models:{arguments[0]}", *arguments[1:])
    assert found.code == 2
    assert message in found.err
