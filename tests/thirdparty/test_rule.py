"""Rules on models of timm, transformers and torch: backprop is loss.backward(), DFA and FA equal an explicit twin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.methods.twins import normalised
from tests.thirdparty.test_timm import made, photographs, resnet, vit
from tests.thirdparty.test_torch_encoder import Classifier, sequences
from tests.thirdparty.test_transformers import bert, bert_states, gpt2, sentences
from torch import Tensor, nn

import creditscope
from creditscope.batch import Batch
from creditscope.errors import ModelMismatch
from creditscope.stream.isolation import as_float64

pytestmark = [pytest.mark.thirdparty, pytest.mark.filterwarnings("ignore")]

Walk = Callable[[Any], tuple[list[Tensor], Tensor]]


@dataclass(frozen=True)
class Case:
    """A model, a batch, its states and logits written out, and its blocks."""

    model: nn.Module
    inputs: Any
    labels: Tensor
    walk: Walk
    blocks: list[nn.Module]

    def parts(self) -> list[set[nn.Parameter]]:
        """The parameters of the blocks."""
        return [set(block.parameters()) for block in self.blocks]

    def gradients(self) -> dict[str, Tensor]:
        return {name: p.grad.clone() for name, p in self.model.named_parameters() if p.grad is not None}


def of_timm(name: str, size: int, walk: Callable[..., Any], blocks: Callable[[Any], list[nn.Module]]) -> Case:
    model = made(name).eval()
    x, y = photographs(2, size)[0]
    return Case(model, x, y, lambda given: walk(model, given), blocks(model))


def of_bert() -> Case:
    model, ids = bert("BertForSequenceClassification").eval(), sentences()[0]

    def walk(given: dict[str, Tensor]) -> tuple[list[Tensor], Tensor]:
        states = bert_states(model, given["input_ids"])
        return states, model.classifier(model.bert.pooler(states[-1]))

    return Case(model, {"input_ids": ids}, ids[:, 1] % 5, walk, list(model.bert.encoder.layer))


def of_encoder(**options: Any) -> Case:
    model = Classifier(3, **options).eval()
    x, y = sequences()[0]
    return Case(model, x, y, model.walk, list(model.encoder.layers))


def of_sequential() -> Case:
    torch.manual_seed(0)
    layers = [nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 9), nn.ReLU(), nn.Linear(9, 5)]
    model = nn.Sequential(*layers)

    def walk(x: Tensor) -> tuple[list[Tensor], Tensor]:
        states = [model[:2](x)]
        states += [model[2:4](states[0])]
        states += [model[4:6](states[1])]
        return states, model[6](states[-1])

    return Case(model, torch.randn(8, 12), torch.arange(8) % 5, walk, [layers[2], layers[4]])


CASES: dict[str, Callable[[], Case]] = {
    "vit_tiny_patch16_224": lambda: of_timm("vit_tiny_patch16_224", 224, vit, lambda model: list(model.blocks)),
    "resnet18": lambda: of_timm(
        "resnet18",
        32,  # feedback between flattened maps of 224 pixels would not fit into memory
        resnet,
        lambda model: [block for name in "1234" for block in getattr(model, f"layer{name}")],
    ),
    "bert": of_bert,
    "encoder": lambda: of_encoder(batch_first=True, norm_first=True),
    "encoder, tokens first": lambda: of_encoder(norm_first=False),
    "sequential": of_sequential,
}


@pytest.fixture(params=list(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


def near(found: dict[str, Tensor], expected: dict[str, Tensor], limit: float = 1e-6) -> None:
    """‖found - expected‖ ≤ limit · ‖expected‖ for every parameter."""
    assert found.keys() == expected.keys()
    largest = max(float(gradient.norm()) for gradient in expected.values())
    for name, gradient in expected.items():
        off = float((found[name] - gradient).norm())
        assert off <= limit * max(float(gradient.norm()), 1e-3 * largest), (name, off, float(gradient.norm()))


def test_backprop_is_loss_backward(case: Case) -> None:
    bound = creditscope.rule("bp", case.model, example=(case.inputs, case.labels))
    loss = bound.backward(case.inputs, case.labels)
    found = case.gradients()
    case.model.zero_grad()
    out = case.model(**case.inputs) if isinstance(case.inputs, dict) else case.model(case.inputs)
    expected = F.cross_entropy(getattr(out, "logits", out), case.labels)
    expected.backward()
    torch.testing.assert_close(loss, expected.detach())
    near(found, case.gradients())


def twin(case: Case, name: str, feedback: dict[str, Tensor]) -> dict[str, Tensor]:
    """Σ ⟨h_l, â_l⟩/N, each differentiated by the parameters of its own stage only, and the loss by the read-out's."""
    states, logits = case.walk(case.inputs)
    count = len(case.labels)
    (deepest,) = torch.autograd.grad(
        F.cross_entropy(logits, case.labels, reduction="sum"), states[-1], retain_graph=True
    )
    error = (F.softmax(logits, 1) - F.one_hot(case.labels, logits.shape[1])).detach()
    signals = direct(states, error, feedback) if name == "dfa" else descending(states, deepest, feedback)
    named, parts = dict(case.model.named_parameters()), case.parts()
    inside = set().union(*parts)
    outside = [name for name, p in named.items() if p not in inside]
    found: dict[str, Tensor] = {}
    for layer, (state, signal) in enumerate(zip(states, signals, strict=True)):
        own = outside if layer == 0 else [name for name, p in named.items() if p in parts[layer - 1]]
        received = torch.stack(normalised(list(signal), "sample" if name == "dfa" else "batch")) / count
        products = torch.autograd.grad(
            state, [named[key] for key in own], received, allow_unused=True, retain_graph=True
        )
        found |= {key: product for key, product in zip(own, products, strict=True) if product is not None}
    rest = [key for key in outside if key not in found]
    loss = F.cross_entropy(logits, case.labels)
    products = torch.autograd.grad(loss, [named[key] for key in rest], allow_unused=True)
    return found | {key: product for key, product in zip(rest, products, strict=True) if product is not None}


def direct(states: list[Tensor], error: Tensor, feedback: dict[str, Tensor]) -> list[Tensor]:
    rows = [error @ feedback[f"B.{layer}"] for layer in range(len(states))]
    return [
        row[:, None].expand_as(state) if state.dim() == 3 else row.view_as(state)
        for row, state in zip(rows, states, strict=True)
    ]


def descending(states: list[Tensor], deepest: Tensor, feedback: dict[str, Tensor]) -> list[Tensor]:
    signals = [deepest]
    for layer in reversed(range(len(states) - 1)):
        below, matrix = states[layer], feedback[f"B.{layer}"]
        if signals[0].shape != below.shape:
            carried = (signals[0].flatten(1) @ matrix).view_as(below)
        elif below.dim() == 4:
            carried = (signals[0].movedim(1, -1) @ matrix).movedim(-1, 1)
        else:
            carried = signals[0] @ matrix
        signals.insert(0, carried)
    return signals


@pytest.mark.parametrize("name", ["dfa", "fa"])
def test_local_rules_equal_an_explicit_twin(name: str, case: Case) -> None:
    case = replace(case, model=case.model.double(), inputs=as_float64(Batch(case.inputs, case.labels)).inputs)
    bound = creditscope.rule(name, case.model, example=(case.inputs, case.labels), seed=2)
    bound.backward(case.inputs, case.labels)
    near(case.gradients(), twin(case, name, {key: matrix.double() for key, matrix in bound.feedback.tensors.items()}))


def test_a_tied_language_model_is_refused_until_told() -> None:
    model, ids = gpt2("GPT2LMHeadModel").eval(), sentences()[0]
    batch = {"input_ids": ids}, ids.roll(-1, 1)

    def per_token(logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")

    with pytest.raises(ModelMismatch, match=r"wte.weight of GPT2LMHeadModel serves both"):
        creditscope.rule("dfa", model, example=batch, loss_fn=per_token)
    bound = creditscope.rule("dfa", model, example=batch, loss_fn=per_token, tied="embedding")
    loss = bound.backward(*batch)
    torch.testing.assert_close(loss, per_token(model(**batch[0]).logits, batch[1]).mean().detach())
    assert all(p.grad is not None for p in model.parameters())
