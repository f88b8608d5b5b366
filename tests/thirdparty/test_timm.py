"""timm's models are found by themselves; D1 to D4 are those of their states written out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.explicit_states import Reading, agrees, by_hand, first, mean, pooled
from tests.foreign_models import unchanged
from torch import Tensor

from creditscope import audit
from creditscope.stream.discovery import discover
from creditscope.stream.find import find_stream
from creditscope.stream.isolation import undisturbed

pytestmark = [pytest.mark.thirdparty, pytest.mark.filterwarnings("ignore")]

CLASSES, CONTROL = 5, 0.1


def made(name: str) -> Any:
    """Random weights; nothing is downloaded."""
    import timm

    torch.manual_seed(0)
    model = timm.create_model(name, pretrained=False, num_classes=CLASSES)
    torch.nn.init.normal_(model.get_classifier().weight, 0, 0.1)  # some start at zero, where there is no gradient
    return model


def photographs(count: int, size: int = 224) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(count, 3, size, size, generator=generator), torch.randint(CLASSES, (count,), generator=generator))
        for _ in range(2)
    ]


def vit(model: Any, x: Tensor) -> tuple[list[Tensor], Tensor]:
    states = [model.norm_pre(model.patch_drop(model._pos_embed(model.patch_embed(x))))]
    for block in model.blocks:
        states.append(block(states[-1]))
    return states, model.head(model.fc_norm(model.norm(states[-1])[:, 0]))


def resnet(model: Any, x: Tensor) -> tuple[list[Tensor], Tensor]:
    states = [model.maxpool(model.act1(model.bn1(model.conv1(x))))]
    for stage in (model.layer1, model.layer2, model.layer3, model.layer4):
        for block in stage:
            states.append(block(states[-1]))
    return states, model.fc(states[-1].mean((2, 3)))


def mixer(model: Any, x: Tensor) -> tuple[list[Tensor], Tensor]:
    states = [model.stem(x)]
    for block in model.blocks:
        states.append(block(states[-1]))
    return states, model.head(model.norm(states[-1]).mean(1))


@pytest.mark.parametrize(
    ("name", "walk", "read", "rule", "depth"),
    [
        ("vit_tiny_patch16_224", vit, first, "first", 12),
        ("resnet18", resnet, pooled, "auto", 8),
        ("mixer_s32_224", mixer, mean, "mean", 8),
    ],
)
def test_the_diagnostics_are_those_of_the_states_written_out(
    name: str, walk: Callable[..., Any], read: Reading, rule: str, depth: int
) -> None:
    model, given = made(name), photographs(4)
    with unchanged(model):
        report = audit(model, given, control_accuracy=CONTROL)
    assert (report.subject.depth, report.provenance.read) == (depth, rule)
    model.eval()
    agrees(report, by_hand(lambda x: walk(model, x), given, read), CONTROL)


@pytest.mark.parametrize(
    ("name", "title", "opening"),
    [
        ("convnext_atto", "12 x ConvNeXtBlock", "stages.0.blocks.0"),
        ("regnetx_002", "13 x Bottleneck", "s1.b1"),
        ("efficientnet_b0", "15 x InvertedResidual", "blocks.1.0"),
        ("deit_tiny_patch16_224", "12 x Block", "blocks.0"),
        ("resmlp_12_224", "12 x ResBlock", "blocks.0"),
    ],
)
def test_other_architectures_are_found_too(name: str, title: str, opening: str) -> None:
    model = made(name)
    with undisturbed(model):
        found = discover(model, photographs(2)[0][0])
    assert (found.title, found.names[0]) == (title, opening)


def test_the_channels_of_a_swin_transformer_are_told_from_its_positions() -> None:
    model, x = made("swin_tiny_patch4_window7_224"), photographs(1)[0][0]
    stream = find_stream(model)
    with undisturbed(model), torch.no_grad():
        hiddens = stream.run(x).hiddens
        assert [tuple(state.shape[1:]) for state in (hiddens[0], hiddens[-1])] == [(96, 56, 56), (768, 7, 7)]
        assert stream.vectors(hiddens[-1]).shape == (1, 768)
