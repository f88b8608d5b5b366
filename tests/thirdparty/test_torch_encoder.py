"""torch's own encoders, in every form that their options give, are found by themselves."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.explicit_states import agrees, by_hand, mean
from tests.foreign_models import draw, unchanged
from torch import Tensor, nn

from creditscope import audit
from creditscope.stream.find import find_stream

pytestmark = pytest.mark.thirdparty

FEATURES, WIDTH, CLASSES, TOKENS, CONTROL = 12, 32, 5, 9, 0.1


class Classifier(nn.Module):
    """An encoder over tokens with a mean at its end."""

    def __init__(self, depth: int, **options: Any) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, **options)
        self.inlet, self.outlet = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.encoder = nn.TransformerEncoder(layer, depth, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.samples_first = bool(options.get("batch_first"))
        draw(self, 0)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x) if self.samples_first else self.inlet(x).transpose(0, 1)
        out: Tensor = self.outlet(self.encoder(h).mean(1 if self.samples_first else 0))
        return out

    def walk(self, x: Tensor) -> tuple[list[Tensor], Tensor]:
        states = [self.inlet(x)]
        for layer in self.encoder.layers:
            turned = states[-1] if self.samples_first else states[-1].transpose(0, 1)
            after = layer(turned)
            states.append(after if self.samples_first else after.transpose(0, 1))
        return states, self.outlet(self.encoder.norm(states[-1]).mean(1))


def sequences() -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(32, TOKENS, FEATURES, generator=generator), torch.randint(CLASSES, (32,), generator=generator))
        for _ in range(3)
    ]


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("depth", [2, 6])
def test_the_diagnostics_are_those_of_the_states_written_out(batch_first: bool, norm_first: bool, depth: int) -> None:
    model, given = Classifier(depth, batch_first=batch_first, norm_first=norm_first), sequences()
    with unchanged(model):
        report = audit(model, given, control_accuracy=CONTROL)
    assert (report.subject.depth, report.provenance.read) == (depth, "mean")
    model.eval()
    agrees(report, by_hand(model.walk, given, mean), CONTROL)


@pytest.mark.parametrize("seed", range(3))
def test_of_an_encoder_and_a_decoder_the_one_is_taken_that_the_loss_depends_on_most(seed: int) -> None:
    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inlet, self.outlet = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES)
            self.inner = nn.Transformer(WIDTH, 4, 2, 2, 64, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            h = self.inlet(x)
            out: Tensor = self.outlet(self.inner(h, h).mean(1))
            return out

    torch.manual_seed(seed)
    model, inputs = Whole().eval(), sequences()[0][0]
    named = {part: find_stream(model, f"inner.{part}.layers").run(inputs) for part in ("encoder", "decoder")}
    assert [len(run.hiddens) for run in named.values()] == [3, 3]
    torch.testing.assert_close(find_stream(model).run(inputs).hiddens, named["decoder"].hiddens)
