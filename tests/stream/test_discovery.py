"""Streams of models that do not show them are found by structure, read as their read-outs do, or refused."""

from __future__ import annotations

import json
from collections import UserDict
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.explicit_states import agrees, by_hand, every, first, mean, pooled
from tests.foreign_models import (
    CLASSES,
    FEATURES,
    WIDTH,
    Branches,
    Skip,
    Tokens,
    branch,
    draw,
    images,
    stages,
    unchanged,
)
from torch import Tensor, nn

from creditscope import audit
from creditscope.errors import InvalidInput, ModelMismatch, NotTheGradient
from creditscope.stream.discovery import discover
from creditscope.stream.find import SearchedStream, find_stream
from creditscope.stream.trace import capture, losses_at

BATCH = images(6)
IMAGE = (3, 12, 12)


class Residual(nn.Module):
    """A residual block of a ResNet, its shortcut a projection where the width changes."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(before, after, 3, stride, 1), nn.BatchNorm2d(after)
        self.conv2, self.norm2 = nn.Conv2d(after, after, 3, 1, 1), nn.BatchNorm2d(after)
        self.act = nn.ReLU(inplace=True)
        self.downsample = nn.Conv2d(before, after, 1, stride) if before != after or stride > 1 else None

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        out: Tensor = self.norm2(self.conv2(self.act(self.norm1(self.conv1(x)))))
        out += shortcut
        out = self.act(out)
        return out


class ResNet(nn.Module):
    """Four lists of residual blocks, wider from list to list."""

    def __init__(self, per_stage: int = 2) -> None:
        super().__init__()
        self.stem, self.act = nn.Conv2d(3, 4, 3, 1, 1), nn.ReLU(inplace=True)
        width = 4
        for stage in range(4):
            widths = [width, *[width * (2 if stage else 1)] * per_stage]
            blocks = [Residual(a, b, 2 if b > a else 1) for a, b in pairwise(widths)]
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
            width = widths[-1]
        self.head = nn.Linear(width, CLASSES)
        draw(self, 0)

    def states(self, x: Tensor) -> list[Tensor]:
        hiddens = [self.act(self.stem(x))]
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            for block in stage:
                hiddens.append(block(hiddens[-1]))
        return hiddens

    def readout(self, state: Tensor) -> Tensor:
        out: Tensor = self.head(state.mean((2, 3)))
        return out

    def forward(self, x: Tensor) -> Tensor:
        h = self.act(self.stem(x))
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            h = stage(h)
        return self.readout(h)


def sequence(*widths: int, activation: Callable[[], nn.Module] = nn.Tanh) -> nn.Sequential:
    """Linear layers with an activation after each but the last."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), activation()]
    made = nn.Sequential(*layers[:-1])
    draw(made, 0)
    return made


def lenet() -> nn.Sequential:
    made = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(54, 20),
        nn.ReLU(),
        nn.Linear(20, CLASSES),
    )
    draw(made, 0)
    return made


def groups() -> nn.Sequential:
    """A plain Sequential: embedding, three equal groups, read-out."""
    widths = [FEATURES, WIDTH, WIDTH, WIDTH]
    made = nn.Sequential(*[nn.Sequential(nn.Linear(a, b), nn.Tanh()) for a, b in pairwise(widths)])
    made.append(nn.Linear(WIDTH, CLASSES))
    draw(made, 0)
    return made


class Recurrent(nn.Module):
    """Layers that return (states, memory)."""

    def __init__(self) -> None:
        super().__init__()
        self.inlet, self.outlet = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.layers = nn.ModuleList(nn.LSTM(WIDTH, WIDTH, batch_first=True) for _ in range(3))
        draw(self, 0)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        for layer in self.layers:
            h, _ = layer(h)
        out: Tensor = self.outlet(h[:, -1])
        return out


class Deep(nn.Module):
    """Two wrappers around a model, as other libraries have them."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.backbone = nn.ModuleDict({"encoder": inner})

    def forward(self, x: Tensor) -> Any:
        return self.backbone["encoder"](x)


FOUND: list[tuple[Callable[[], nn.Module], tuple[int, ...], list[str]]] = [
    (Branches, (FEATURES,), ["layers.0", "layers.1", "layers.2"]),
    (stages, (FEATURES,), ["layers.0", "layers.1", "layers.2"]),
    (lambda: Deep(stages()), (FEATURES,), [f"backbone.encoder.layers.{index}" for index in range(3)]),
    (Tokens, (4, FEATURES), ["layers.0", "layers.1"]),
    (lambda: Tokens(1), (4, FEATURES), ["layers.0"]),
    (Recurrent, (4, FEATURES), ["layers.0", "layers.1", "layers.2"]),
    (ResNet, IMAGE, [f"layer{stage}.{block}" for stage in range(1, 5) for block in range(2)]),
    (lambda: ResNet(1), IMAGE, ["layer1", "layer2", "layer3", "layer4"]),
    (groups, (FEATURES,), ["1", "2"]),
    (
        lambda: nn.Sequential(nn.Linear(FEATURES, WIDTH), Skip(), Skip(), nn.Linear(WIDTH, CLASSES)),
        (FEATURES,),
        ["1", "2"],
    ),
    (lambda: sequence(FEATURES, 8, 20, 6, CLASSES), (FEATURES,), ["2", "4"]),
    (lambda: sequence(FEATURES, WIDTH, WIDTH, WIDTH, CLASSES), (FEATURES,), ["2", "4"]),
    (lambda: sequence(FEATURES, WIDTH, WIDTH, WIDTH, CLASSES, activation=nn.Identity), (FEATURES,), ["2", "4"]),
    (lenet, IMAGE, ["3", "6"]),
]


@pytest.mark.parametrize(("make", "shape", "names"), FOUND)
def test_the_stream_is_found_by_itself_and_the_model_left_alone(
    make: Callable[[], nn.Module], shape: tuple[int, ...], names: list[str]
) -> None:
    model, batch = make().eval(), images(6, shape=shape)
    with unchanged(model):
        found = discover(model, batch.inputs)
        assert list(found.names) == names
        stream = find_stream(model)
        assert isinstance(stream, SearchedStream)
        trace = capture(stream, batch)
    assert stream.blocks == [model.get_submodule(name) for name in names]
    torch.testing.assert_close(trace.logits, model(batch.inputs).detach())


@pytest.mark.parametrize(("make", "shape", "names"), FOUND)
def test_along_a_found_stream_a_shift_does_what_the_gradient_says(
    make: Callable[[], nn.Module], shape: tuple[int, ...], names: list[str]
) -> None:
    model, batch = make().eval().double(), images(6, shape=shape)
    batch = batch._replace(inputs=batch.inputs.double())
    stream = find_stream(model)
    trace = capture(stream, batch)
    for layer, state in enumerate(trace.hiddens):
        step = 1e-7 * torch.randn(state.shape, generator=torch.Generator().manual_seed(layer), dtype=torch.float64)
        step = step * (state != 0)
        forth, back = (losses_at(stream, batch, {layer: sign * step}) for sign in (1, -1))
        torch.testing.assert_close(
            ((forth - back) / 2).sum(), (trace.gradients[layer] * step).sum(), rtol=1e-4, atol=1e-12
        )


def cut_in_two(shape: tuple[int, ...], size: int = 12) -> list[Any]:
    return [images(size, seed=seed, shape=shape) for seed in range(2)]


def test_a_resnets_diagnostics_are_those_of_its_states_written_out() -> None:
    model, given = ResNet(), cut_in_two(IMAGE)
    with unchanged(model):
        report = audit(model, given, control_accuracy=0.1)
    model.eval()

    def walk(x: Tensor) -> tuple[list[Tensor], Tensor]:
        hiddens = model.states(x)
        return hiddens, model.readout(hiddens[-1])

    agrees(report, by_hand(walk, given, pooled), control=0.1)
    assert report.subject.depth == 8
    assert str(report.provenance.guards["stream"]) == (
        'passed: 8 x Residual found by structure, blocks=["layer1.0", "layer1.1", ..., "layer4.1"]'
    )
    assert "stream" not in audit(model, given, blocks=["layer1", "layer2"]).provenance.guards


def test_a_plain_sequences_states_are_what_enters_its_layers() -> None:
    model, given = lenet(), cut_in_two(IMAGE)

    def walk(x: Tensor) -> tuple[list[Tensor], Tensor]:
        h0 = model[2](model[0](x).relu())
        h1 = model[3](h0).relu().flatten(1)
        h2 = model[6](h1).relu()
        return [h0, h1, h2], model[8](h2)

    agrees(audit(model, given, control_accuracy=0.1), by_hand(walk, given, pooled), control=0.1)


# --- which vector stands for a state with tokens ---


class Encoder(nn.Module):
    """torch's own encoder with a read-out of any kind."""

    def __init__(self, head: Callable[[Tensor], Tensor], batch_first: bool = True) -> None:
        super().__init__()
        self.inlet, self.outlet, self.head = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES), head
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 24, batch_first=batch_first, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.batch_first = batch_first
        draw(self, 0)

    def states(self, x: Tensor) -> list[Tensor]:
        hiddens = [self.inlet(x)]
        for layer in self.encoder.layers:
            hiddens.append(layer(hiddens[-1]))
        return hiddens

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        h = self.encoder(h) if self.batch_first else self.encoder(h.transpose(0, 1)).transpose(0, 1)
        return self.outlet(self.head(h))


def attended(h: Tensor) -> Tensor:
    return (torch.softmax(h.sum(-1), 1)[..., None] * h).sum(1)


READ_OUTS = [
    (first, "first", first),
    (mean, "mean", mean),
    (attended, "mean", mean),
    (lambda h: h[:, -1], -1, lambda h: h[:, -1]),
    (lambda h: h[:, 2], 2, lambda h: h[:, 2]),
    (lambda h: h[:, 1:].mean(1), "mean", mean),
]


@pytest.mark.parametrize(("head", "rule", "read"), READ_OUTS)
def test_what_the_read_out_consumes_stands_for_the_state(head: Any, rule: Any, read: Any) -> None:
    model, given = Encoder(head), cut_in_two((5, FEATURES))
    report = audit(model, given, control_accuracy=0.1)
    assert report.provenance.read == str(rule)
    model.eval()

    def walk(x: Tensor) -> tuple[list[Tensor], Tensor]:
        hiddens = model.states(x)
        return hiddens, model.outlet(head(hiddens[-1]))

    agrees(report, by_hand(walk, given, read), control=0.1)


@pytest.mark.parametrize(("head", "rule", "read"), READ_OUTS[:4])
def test_a_read_out_of_zeros_is_still_seen_to_consume_something(head: Any, rule: Any, read: Any) -> None:
    model = Encoder(head)
    nn.init.zeros_(model.outlet.weight)
    assert audit(model, cut_in_two((5, FEATURES))).provenance.read == str(rule)


def per_token(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")


def test_positions_with_logits_of_their_own_all_count() -> None:
    model = Encoder(every)
    given = [(x, (x.sum(-1) > 0).long()) for x, _ in cut_in_two((5, FEATURES))]
    report = audit(model, given, loss_fn=per_token, control_accuracy=0.1)
    model.eval()

    def walk(x: Tensor) -> tuple[list[Tensor], Tensor]:
        hiddens = model.states(x)
        return hiddens, model.outlet(hiddens[-1])

    agrees(report, by_hand(walk, given, every, per_token), control=0.1)
    assert report.provenance.read == "all"


def test_positions_without_a_label_are_neither_right_nor_wrong() -> None:
    model, (x, _) = Encoder(every), images(8, shape=(5, FEATURES))
    labels = model.eval()(x).argmax(-1)
    labels[:, 3:] = -100
    assert audit(model, [(x, labels)], loss_fn=per_token).accuracy == (1.0,)


def test_a_read_out_that_takes_another_token_of_each_sample_asks_for_a_rule() -> None:
    def in_turn(h: Tensor) -> Tensor:
        return h[torch.arange(len(h)), h[..., 0].argmax(1)]

    with pytest.raises(ModelMismatch, match=r"takes one token of each sample, but not always the same one: \[\d"):
        audit(Encoder(in_turn), [images(8, shape=(5, FEATURES))])
    assert audit(Encoder(in_turn), [images(8, shape=(5, FEATURES))], read="mean").provenance.read == "mean"


@pytest.mark.parametrize("tokens", [5, 8, 12])
def test_tokens_before_samples_give_the_same_numbers(tokens: int) -> None:
    given = cut_in_two((tokens, FEATURES))
    usual, other = (audit(Encoder(mean, batch_first), given) for batch_first in (True, False))
    for code in ("D1", "D2", "D4"):
        assert other.findings[code].per_layer == pytest.approx(usual.findings[code].per_layer, rel=1e-4, abs=1e-7)


class ChannelsLast(nn.Module):
    """Blocks on (N, H, W, C), as some vision transformers have them."""

    def __init__(self, last: bool) -> None:
        super().__init__()
        self.inlet = nn.Conv2d(3, WIDTH, 3, 2)
        self.layers = nn.ModuleList(Turned(last) for _ in range(3))
        self.outlet, self.last = nn.Linear(WIDTH, CLASSES), last
        draw(self, 0)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        h = h.movedim(1, -1) if self.last else h
        for layer in self.layers:
            h = layer(h)
        return self.outlet(h.mean((1, 2) if self.last else (2, 3)))


class Turned(nn.Module):
    def __init__(self, last: bool) -> None:
        super().__init__()
        self.f, self.last = branch(), last

    def forward(self, h: Tensor) -> Tensor:
        return h + self.f(h) if self.last else h + self.f(h.movedim(1, -1)).movedim(-1, 1)


def test_channels_at_the_end_are_told_from_positions() -> None:
    given = cut_in_two(IMAGE)
    usual, other = (audit(ChannelsLast(last), given) for last in (False, True))
    assert other.provenance.guards["gradient"].passed
    for code in ("D1", "D2", "D4"):
        assert other.findings[code].per_layer == pytest.approx(usual.findings[code].per_layer, rel=1e-4, abs=1e-7)


# --- what is no stream, or more than one ---


class Towers(nn.Module):
    """Two streams of the same length."""

    def __init__(self, depths: tuple[int, int] = (2, 2)) -> None:
        super().__init__()
        self.left, self.right = (stages(depth) for depth in depths)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.left(x) + self.right(x)
        return out


def test_two_runs_of_the_same_length_are_an_error_that_lists_them() -> None:
    with pytest.raises(ModelMismatch) as caught:
        find_stream(Towers()).run(BATCH.inputs)
    assert str(caught.value) == (
        'Towers has 2 runs of blocks that could be its stream: blocks="left.layers" (2 x Skip); '
        'blocks="right.layers" (2 x Skip).\n'
        "The states of one are not those of the other. Pass one of them.\n"
        'Tried on this batch, and it works: blocks=["left.layers.0", "left.layers.1"].'
    )
    assert len(find_stream(Towers(), "left.layers").run(BATCH.inputs).hiddens) == 3
    assert discover(Towers((2, 3)), BATCH.inputs).names == tuple(f"right.layers.{index}" for index in range(3))


class Several(nn.Module):
    """A residual branch that is itself a run of equal parts: they are no states of the stream."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.Sequential(Skip(), Skip())

    def forward(self, h: Tensor) -> Tensor:
        return h + self.parts(h)


def test_what_is_inside_a_branch_is_no_part_of_the_stream() -> None:
    model = Branches(layer=lambda: nn.Sequential(Skip(), Skip()))  # h + f(h), f in two equal steps
    assert discover(model, BATCH.inputs).names == ("layers.0", "layers.1", "layers.2")
    assert discover(stages_of(Several), BATCH.inputs).names == ("layers.0", "layers.1", "layers.2")


def stages_of(layer: Callable[[], nn.Module]) -> nn.Module:
    from tests.foreign_models import Stages

    return Stages(layer=layer)


def test_equal_stages_of_equal_blocks_are_seen_block_by_block() -> None:
    model = stages_of(lambda: nn.Sequential(Skip(), Skip()))
    names = tuple(f"layers.{stage}.{block}" for stage in range(3) for block in range(2))
    assert discover(model, BATCH.inputs).names == names


class Experts(nn.Module):
    """Equal siblings side by side, not one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(Skip() for _ in range(5))
        self.inlet, self.outlet = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        out: Tensor = self.outlet(torch.stack([expert(h) for expert in self.experts]).mean(0))
        return out


class Dense(nn.Module):
    """Every layer sees all states before it: there is no place to cut."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(FEATURES + 4 * index, 4) for index in range(3))
        self.outlet = nn.Linear(FEATURES + 12, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat([x, layer(x).tanh()], 1)
        out: Tensor = self.outlet(x)
        return out


class Skipping(nn.Module):
    """Four blocks of different types and widths that stand side by side in the model; the first is read again later."""

    def __init__(self) -> None:
        super().__init__()
        self.inlet, self.outlet = nn.Linear(FEATURES, WIDTH), nn.Linear(2 * WIDTH, CLASSES)
        self.first, self.second = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.Tanh()), nn.Bilinear(32, WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        k = self.second(self.first(h), h)
        out: Tensor = self.outlet(torch.cat([k, h], 1))
        return out


@pytest.mark.parametrize(
    ("make", "option"),
    [
        (Experts, None),
        (Dense, "layers"),
        (Skipping, ["first", "second"]),
        (lambda: nn.Linear(FEATURES, CLASSES), None),
    ],
)
def test_a_model_without_a_stream_is_refused_with_blocks_that_work(make: Callable[[], nn.Module], option: Any) -> None:
    with pytest.raises(ModelMismatch, match="its forward pass has no run of blocks of one type") as caught:
        find_stream(make()).run(BATCH.inputs)
    last = str(caught.value).splitlines()[-1]
    if option is None:
        assert last in ("None of 2 lists of modules works as blocks=.", "It has no list of modules to try.")
    else:
        assert last == f"Tried on this batch, and it works: blocks={json.dumps(option)}."
        report = audit(make(), [images(8, seed) for seed in range(2)], blocks=option)
        assert report.subject.depth > 1


def test_the_blocks_are_not_known_before_the_first_batch() -> None:
    stream = find_stream(stages())
    with pytest.raises(ModelMismatch, match="The blocks of Stages are not known before its first batch"):
        stream.blocks  # noqa: B018


@pytest.mark.parametrize("make", [Branches, stages, ResNet])
def test_a_network_of_nan_is_found_and_fails(make: Callable[[], nn.Module]) -> None:
    model = make()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(float("nan"))
    shape = IMAGE if isinstance(model, ResNet) else (FEATURES,)
    assert str(audit(model, cut_in_two(shape), accuracy=0.5).verdict) == "FAIL(D0)"


# --- what comes in ---


def test_batches_may_be_mappings_that_hold_their_labels() -> None:
    class Named(Branches):
        def forward(self, pixels: Tensor, scale: Tensor) -> Any:  # type: ignore[override]
            return {"logits": super().forward(pixels * scale[:, None])}

    given = [images(16, seed=seed) for seed in range(2)]
    plain = audit(Branches(), given)
    for kind in (dict, UserDict):
        named = [kind(pixels=x, scale=torch.ones(16), labels=y) for x, y in given]
        assert audit(Named(), named).findings == plain.findings
        apart = [(kind(pixels=x, scale=torch.ones(16)), y) for x, y in given]
        assert audit(Named(), apart).findings == plain.findings


def test_regression_has_no_accuracy_but_a_stream_and_a_reference() -> None:
    given = [(x, x[:, :CLASSES]) for x, _ in cut_in_two((FEATURES,))]
    report = audit(stages(), given, loss_fn=lambda out, target: (out - target).square().sum(1), control_accuracy=0.1)
    assert (report.accuracy, report.findings["D3"].status) == (None, "skipped")
    assert {report.findings[code].status for code in ("D0", "D1", "D2")} == {"pass"}
    assert report.provenance.guards["gradient"].passed


def test_one_number_per_sample_may_come_without_an_axis_of_its_own() -> None:
    class Single(Branches):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x)[:, 0]

    class Column(Branches):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x)[:, :1]

    given = [(x, x[:, 0]) for x, _ in cut_in_two((FEATURES,))]
    flat = audit(Single(), given, loss_fn=lambda out, target: (out - target).square())
    column = audit(Column(), given, loss_fn=lambda out, target: (out[:, 0] - target).square())
    assert flat.findings == column.findings


# --- wrapped models, and models that cannot be differentiated ---


def test_a_model_in_a_wrapper_is_audited_as_itself() -> None:
    model, given = stages(), cut_in_two((FEATURES,))
    bare = audit(model, given)
    wrapped = nn.DataParallel(model)
    with unchanged(wrapped):
        assert audit(wrapped, given).findings == bare.findings
    assert audit(wrapped, given, blocks="layers").findings == bare.findings
    assert audit(wrapped, given).subject == bare.subject


@pytest.mark.parametrize("how", ["whole", "in place", "its blocks"])
def test_a_compiled_model_runs_as_it_is_written(how: str) -> None:
    def never(graph: Any, inputs: Any) -> Any:
        raise AssertionError("it was compiled")

    model, given = stages(), cut_in_two((FEATURES,))
    expected = audit(model, given).findings
    if how == "whole":
        compiled: Any = torch.compile(model, backend=never)
    else:
        for module in [model] if how == "in place" else model.layers:
            module.compile(backend=never)
        compiled = model
    assert audit(compiled, given).findings == expected


def made_in_inference_mode() -> nn.Module:
    with torch.inference_mode():
        return stages()


def scripted() -> nn.Module:
    return torch.jit.trace(nn.Sequential(nn.Linear(FEATURES, CLASSES)), BATCH.inputs)  # type: ignore[no-any-return]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            made_in_inference_mode,
            r"Stages was created inside torch.inference_mode\(\): autograd cannot save",
        ),
        (scripted, "is a TorchScript module: hooks do not reach its blocks"),
        (lambda: nn.Sequential(nn.LazyLinear(CLASSES)), "has lazy parameters that are not initialised"),
        (lambda: stages().to("meta"), "has tensors on the meta device, which hold no numbers"),
        (lambda: torch.zeros(2), "The model is a Tensor, not a torch.nn.Module"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_a_reason(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ModelMismatch, match=message):
        audit(make(), [BATCH])


def test_autocast_around_an_audit_does_not_get_into_it() -> None:
    model, given = stages(), cut_in_two((FEATURES,))
    expected = audit(model, given).findings
    with torch.autocast("cpu", torch.bfloat16):
        assert audit(model, given).findings == expected
        assert torch.is_autocast_enabled("cpu")


class MixedPrecision(Branches):
    """It runs its blocks in bfloat16 by itself."""

    def __init__(self) -> None:
        super().__init__(layer=Skip)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            h = self.inlet(x)
            for layer in self.layers:
                h = layer(h)
            return self.readout(h).float()


def test_a_model_that_mixes_precisions_is_measured_as_it_runs() -> None:
    given = cut_in_two((FEATURES,), 64)
    mixed, plain = audit(MixedPrecision(), given), audit(stages(), given)
    assert str(mixed.provenance.guards["gradient"]) == "not possible: the model switches to half precision by itself"
    for code in ("D1", "D2"):
        assert mixed.findings[code].value == pytest.approx(plain.findings[code].value, rel=0.05)


def test_a_model_of_bfloat16_weights_is_found_and_measured() -> None:
    given = cut_in_two((FEATURES,), 64)
    half, plain = audit(stages().bfloat16(), given), audit(stages(), given)
    assert half.provenance.dtype == "bfloat16"
    for code in ("D1", "D2"):
        assert half.findings[code].value == pytest.approx(plain.findings[code].value, rel=0.05)


def test_a_backward_pass_that_fails_is_told_about_the_plain_twin() -> None:
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return ctx.nothing.mm(gradient)

    class Own(Skip):
        def forward(self, h: Tensor) -> Tensor:
            return Broken.apply(super().forward(h))

    with pytest.raises(NotTheGradient, match=r"(?s)works, but its backward pass fails: AttributeError.*plain_twin"):
        audit(stages_of(Own), [BATCH])


def test_a_rule_that_is_none_is_refused_before_anything_is_searched() -> None:
    with pytest.raises(InvalidInput, match="read='last' is not a rule"):
        find_stream(stages(), read="last")  # type: ignore[arg-type]


class ScaledBranches(nn.Module):
    """h + α f(h): the model scales what a block returns, as in ReZero or Euler's steps."""

    def __init__(self, scale: float, *, shared: bool) -> None:
        super().__init__()
        self.start, self.head = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.layers = nn.ModuleList(branch() for _ in range(1 if shared else 3))
        self.scale = nn.Parameter(torch.tensor(scale))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.states(x)[-1])

    def states(self, x: Tensor) -> list[Tensor]:
        states = [self.start(x)]
        for index in range(3):
            states.append(states[-1] + self.scale * self.layers[index % len(self.layers)](states[-1]))
        return states


@pytest.mark.parametrize("scale", [0.0, 1e-5, 0.1])
@pytest.mark.parametrize("options", [{"shared": True}, {"shared": False}, {"shared": False, "blocks": "layers"}])
def test_a_stream_to_which_scaled_branches_are_added_ends_where_the_head_reads_it(
    scale: float, options: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    model = ScaledBranches(scale, shared=options["shared"]).double()
    inputs = BATCH.inputs.double()
    stream = find_stream(model, options.get("blocks"))
    stream.settle(inputs)
    trace = capture(stream, BATCH._replace(inputs=inputs))
    states = model.states(inputs)
    gradients = torch.autograd.grad(F.cross_entropy(model.head(states[-1]), BATCH.labels, reduction="sum"), states)
    for ours, theirs in zip((*trace.hiddens, *trace.gradients), (*states, *gradients), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert (
        stream.at(inputs, {1: states[1]}) is None
    )  # the stream bypasses the block, so that it cannot be replaced there


def test_a_decoder_beside_the_read_out_is_no_part_of_a_plain_stream() -> None:
    class Autoencoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(
                nn.Linear(FEATURES, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 4)
            )
            self.decoder = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, FEATURES))
            self.head = nn.Linear(4, CLASSES)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            code = self.encoder(x)
            return self.head(code), self.decoder(code)

    assert discover(Autoencoder(), BATCH.inputs).names == ("encoder.2", "encoder.4")
