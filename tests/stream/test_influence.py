"""Among several streams the one that the loss depends on is found; a block called several times is a stream."""

from __future__ import annotations

import pytest
import torch
from tests.foreign_models import CLASSES, FEATURES, WIDTH, Skip, Stages, branch, draw, images, stages
from torch import Tensor, nn

from creditscope import audit
from creditscope.errors import AmbiguousStream, ModelMismatch
from creditscope.stream.bottlenecks import Bottlenecks
from creditscope.stream.candidates import candidates, carries_everything
from creditscope.stream.discovery import discover
from creditscope.stream.find import find_stream
from creditscope.stream.forward_calls import record_calls
from creditscope.stream.gradient_check import check_gradient
from creditscope.stream.isolation import undisturbed
from creditscope.stream.trace import capture, cross_entropy

BATCH = images(6)
STEPS, LENGTH = 6, 5


class SideTower(nn.Module):
    """A main stream of three blocks and a deeper tower beside it, of which the logits get a tenth."""

    def __init__(self, share: float = 0.1, *, shared_inlet: bool = True) -> None:
        super().__init__()
        self.inlet, self.outlet, self.share = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES), share
        self.side_inlet = self.inlet if shared_inlet else nn.Linear(FEATURES, WIDTH)
        self.main = nn.ModuleList(Skip() for _ in range(3))
        self.side = nn.ModuleList(Skip() for _ in range(8))
        draw(self, 0)

    def forward(self, x: Tensor) -> Tensor:
        h, s = self.inlet(x), self.side_inlet(x)
        if self.side_inlet is self.inlet:
            s = h
        for block in self.main:
            h = block(h)
        for block in self.side:
            s = block(s)
        out: Tensor = self.outlet(h + self.share * s)
        return out


@pytest.mark.parametrize("shared_inlet", [True, False])
def test_a_deeper_side_tower_is_not_taken_for_the_stream_but_named(shared_inlet: bool) -> None:
    model = SideTower(shared_inlet=shared_inlet)
    found = discover(model, BATCH.inputs)
    assert found.names == tuple(f"main.{index}" for index in range(3))
    assert [other.as_option(model) for other in found.others] == ['blocks="side"']
    assert found.others[0].influence < 0.5 * found.influence
    report = audit(model, [images(8, seed) for seed in range(2)])
    assert report.subject.depth == 3
    assert 'blocks="side" (8 x Skip, ' in report.provenance.guards["other streams"].text
    assert "8 x Skip, " in report.to("html")


def test_the_other_way_round_the_deeper_tower_is_the_stream() -> None:
    assert len(discover(SideTower(10.0), BATCH.inputs).names) == 8


def test_the_influence_is_the_relative_sensitivity_computed_state_by_state() -> None:
    model = SideTower()
    found = discover(model, BATCH.inputs)
    error = torch.randn(6, CLASSES, generator=torch.Generator().manual_seed(0))
    for stream, path in ((found, "main"), (found.others[0], "side")):
        forward = find_stream(model, path).run(BATCH.inputs)
        gradients = torch.autograd.grad(forward.logits, forward.anchors[1:], error)
        pairs = zip(forward.hiddens[1:], gradients, strict=True)
        slow = sorted((state.norm() * gradient.norm() / error.norm()).item() for state, gradient in pairs)
        assert stream.influence == pytest.approx(slow[len(slow) // 2], rel=1e-4)


class EqualTowers(nn.Module):
    """Two towers of the same make with weights of their own."""

    def __init__(self, depth: int, seed: int) -> None:
        super().__init__()
        self.inlet, self.outlet = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.left, self.right = (nn.ModuleList(Skip() for _ in range(depth)) for _ in range(2))
        draw(self, seed)

    def forward(self, x: Tensor) -> Tensor:
        left = right = self.inlet(x)
        for one, other in zip(self.left, self.right, strict=True):
            left, right = one(left), other(right)
        out: Tensor = self.outlet(left + right)
        return out


@pytest.mark.parametrize("depth", [2, 8])
def test_equal_towers_are_alike_whatever_their_weights(depth: int) -> None:
    for seed in range(8):
        with pytest.raises(AmbiguousStream, match='blocks="left".* blocks="right"'):
            discover(EqualTowers(depth, seed), images(6, seed).inputs)


class Returning(nn.Module):
    """A main stream of five blocks and a tower of nine that leaves it, or the input, and returns in its middle."""

    def __init__(self, leaves: int, *, returns: int = 3, branches: bool = False) -> None:
        super().__init__()
        self.inlet, self.side_inlet = nn.Linear(FEATURES, WIDTH), nn.Linear(FEATURES, WIDTH)
        self.outlet = nn.Linear(WIDTH, CLASSES)
        self.leaves, self.returns, self.branches = leaves, returns, branches
        kind = branch if branches else Skip
        self.main, self.side = (nn.ModuleList(kind() for _ in range(depth)) for depth in (5, 9))
        draw(self, 0)

    def forward(self, x: Tensor) -> Tensor:
        h, s = self.inlet(x), self.side_inlet(x)
        for index, block in enumerate(self.main):
            if index == self.leaves:
                s = h
            if index == self.returns:
                for other in self.side:
                    s = s + other(s) if self.branches else other(s)
                h = h + s
            h = h + block(h) if self.branches else block(h)
        out: Tensor = self.outlet(h)
        return out


@pytest.mark.parametrize("branches", [False, True])
@pytest.mark.parametrize("leaves", [-1, 0, 1])
def test_a_tower_that_returns_before_the_end_is_a_part_of_the_stream(leaves: int, branches: bool) -> None:
    model = Returning(leaves, branches=branches)
    found = discover(model, BATCH.inputs)
    assert found.names == tuple(f"main.{index}" for index in range(5))
    assert [other.as_option(model) for other in found.others] == ['blocks="side"']
    stream = find_stream(model)
    assert check_gradient(stream, BATCH, cross_entropy).passed
    h = stream.run(BATCH.inputs).hiddens[-1]  # what the read-out takes, branch or not
    torch.testing.assert_close(model.outlet(h), model(BATCH.inputs))


def test_a_tower_that_joins_the_stream_at_its_end_is_a_rival() -> None:
    model = SideTower(10.0)
    recorded = record_calls(model, BATCH.inputs)
    graph = Bottlenecks(recorded, recorded.answer)
    runs = candidates(recorded, graph)
    assert {run.calls[0].name for run in runs} >= {"main.0", "side.0"}
    assert not any(carries_everything(run, runs, graph) for run in runs)


class Adapter(nn.Module):
    """A deep tower beside the first state: what it makes is added before the main stream begins."""

    def __init__(self) -> None:
        super().__init__()
        self.inlet, self.outlet = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.main, self.side = (nn.Sequential(*[Skip() for _ in range(depth)]) for depth in (5, 9))
        draw(self, 0)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        out: Tensor = self.outlet(self.main(h + self.side(h)))
        return out


class Stem(nn.Module):
    """Eight small blocks before six large ones of another type: all on one path."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Linear(FEATURES, 4), *[nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(8)]
        )
        self.body, self.outlet = stages(6), nn.Linear(CLASSES, CLASSES)
        self.body.inlet = nn.Linear(4, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.outlet(self.body(self.stem(x)))
        return out


def test_on_one_path_the_deepest_stream_that_is_no_detail_is_taken() -> None:
    assert discover(Adapter(), BATCH.inputs).names == tuple(f"main.{index}" for index in range(5))
    assert discover(Stem(), BATCH.inputs).names == tuple(f"body.layers.{index}" for index in range(6))


def test_a_bottleneck_is_a_tensor_without_which_no_input_reaches_the_logits() -> None:
    model = SideTower()
    recorded = record_calls(model, BATCH.inputs)
    graph = Bottlenecks(recorded, recorded.answer)
    narrow = {call.name for call in recorded.calls if graph.narrow(call.entry) and ".f" not in call.name}
    assert narrow == {"inlet", "main.0", "side.0", "outlet"}  # both towers begin with the same tensor
    assert all(graph.fed(call.entry) for call in recorded.calls)


class Mixed(nn.Module):
    """A stream of blocks of two types in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.inlet, self.outlet = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.layers = nn.ModuleList(Skip() if index % 2 else Other() for index in range(6))
        draw(self, 0)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        for layer in self.layers:
            h = layer(h)
        out: Tensor = self.outlet(h)
        return out


class Other(Skip):
    """The same under another name."""


def test_blocks_of_several_types_in_one_list_are_one_stream() -> None:
    found = discover(Mixed(), BATCH.inputs)
    assert found.names == tuple(f"layers.{index}" for index in range(6))
    assert found.title == "6 x Other or Skip"


class Shared(nn.Module):
    """One block that runs six times, as in ALBERT."""

    def __init__(self, calls: int = STEPS) -> None:
        super().__init__()
        self.inlet, self.block, self.outlet = nn.Linear(FEATURES, WIDTH), Skip(), nn.Linear(WIDTH, CLASSES)
        self.calls = calls
        draw(self, 0)

    def states(self, x: Tensor) -> list[Tensor]:
        hiddens = [self.inlet(x)]
        for _ in range(self.calls):
            hiddens.append(self.block(hiddens[-1]))
        return hiddens

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.outlet(self.states(x)[-1])
        return out


class Unrolled(Stages):
    """The same network with copies of the block instead of calls of it."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared.calls, layer=Skip)
        self.inlet, self.outlet, self.norm = shared.inlet, shared.outlet, nn.Identity()  # type: ignore[assignment]
        for layer in self.layers:
            layer.load_state_dict(shared.block.state_dict())


@pytest.mark.parametrize("blocks", [None, ["block"]])
def test_a_block_called_several_times_is_the_stream_of_its_calls(blocks: list[str] | None) -> None:
    model = Shared()
    twin = Unrolled(model)
    stream, other = find_stream(model, blocks), find_stream(twin, "layers")
    ours, theirs = capture(stream, BATCH), capture(other, BATCH)
    assert len(ours.hiddens) == len(stream.blocks) + 1 == STEPS + 1
    for one, two in zip((*ours.hiddens, *ours.gradients), (*theirs.hiddens, *theirs.gradients), strict=True):
        torch.testing.assert_close(one, two)
    for layer in range(STEPS + 1):
        shift = {layer: 0.1 * torch.ones_like(ours.hiddens[layer])}
        with torch.no_grad():
            torch.testing.assert_close(stream.run(BATCH.inputs, shift).logits, other.run(BATCH.inputs, shift).logits)
    if blocks is None:
        assert stream.checks()["stream"].text == '6 calls of Skip found by structure, blocks=["block"]'


def test_a_pass_with_another_number_of_calls_is_refused() -> None:
    model = Shared()
    stream = find_stream(model)
    stream.run(BATCH.inputs)
    model.calls = STEPS - 1
    with pytest.raises(ModelMismatch, match="or equally often and one after the other in every pass"):
        stream.run(BATCH.inputs)


class Cells(nn.Module):
    """A recurrent cell over the positions of a sequence, from a memory of zeros."""

    def __init__(self, kind: type[nn.Module] = nn.GRUCell) -> None:
        super().__init__()
        self.cell, self.outlet = kind(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES)
        draw(self, 0)

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor | tuple[Tensor, Tensor] | None = torch.zeros(len(x), WIDTH, dtype=x.dtype)
        if isinstance(self.cell, nn.LSTMCell):
            h = (torch.zeros(len(x), WIDTH, dtype=x.dtype), torch.zeros(len(x), WIDTH, dtype=x.dtype))
        for step in range(x.shape[1]):
            h = self.cell(x[:, step], h)
        out: Tensor = self.outlet(h[0] if isinstance(h, tuple) else h)
        return out


SEQUENCES = images(6, shape=(LENGTH, FEATURES))


@pytest.mark.parametrize("kind", [nn.GRUCell, nn.RNNCell, nn.LSTMCell])
@pytest.mark.parametrize("blocks", [None, ["cell"]])
def test_the_memory_of_a_recurrent_cell_is_a_stream_over_time(kind: type[nn.Module], blocks: list[str] | None) -> None:
    model = Cells(kind)
    stream = find_stream(model, blocks)
    forward = stream.run(SEQUENCES.inputs)
    assert [tuple(state.shape) for state in forward.hiddens] == [(6, WIDTH)] * LENGTH  # the start of zeros is no state
    memory = None
    for step, state in enumerate(forward.hiddens):
        memory = model.cell(SEQUENCES.inputs[:, step], memory)
        torch.testing.assert_close(state, memory[0] if isinstance(memory, tuple) else memory)
    assert check_gradient(stream, SEQUENCES, cross_entropy).passed
    report = audit(model, [images(8, seed, (LENGTH, FEATURES)) for seed in range(2)], blocks=blocks)
    assert report.subject.depth == LENGTH - 1
    assert report.findings["D1"].status.value == "pass"


class Tied(nn.Module):
    """h ← tanh(W h), the same W five times."""

    def __init__(self) -> None:
        super().__init__()
        self.inlet, self.layer, self.outlet = (
            nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)
        )  # fmt: skip
        draw(self, 0)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        for _ in range(5):
            h = self.layer(h).tanh()
        out: Tensor = self.outlet(h)
        return out


def test_a_layer_with_tied_weights_is_a_stream_of_its_calls() -> None:
    found = discover(Tied(), BATCH.inputs)
    assert (found.title, found.names) == ("5 calls of Linear", ("layer",) * 5)


class EncoderDecoder(nn.Module):
    """A transformer whose decoder starts from learnt queries and reads the encoder's answer in every layer."""

    def __init__(self) -> None:
        super().__init__()
        options = {"dropout": 0.0, "batch_first": True, "norm_first": True}
        self.inlet, self.outlet = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.encoder = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, 2, 32, **options) for _ in range(3))  # type: ignore[arg-type]
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(WIDTH, 2, 32, **options) for _ in range(4))  # type: ignore[arg-type]
        self.queries = nn.Parameter(torch.zeros(1, 2, WIDTH))
        draw(self, 0)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        for layer in self.encoder:
            h = layer(h)
        q = self.queries.expand(len(x), -1, -1)
        for layer in self.decoder:
            q = layer(q, h)
        out: Tensor = self.outlet(q[:, 0])
        return out


class Messages(nn.Module):
    """Message passing: nodes and edges are both updated, the nodes are read."""

    def __init__(self) -> None:
        super().__init__()
        self.inlet, self.edges = nn.Linear(FEATURES, WIDTH), nn.Linear(FEATURES, WIDTH)
        self.encoder, self.decoder = (nn.ModuleList(Message() for _ in range(3)) for _ in range(2))
        self.outlet = nn.Linear(WIDTH, CLASSES)
        draw(self, 0)

    def forward(self, x: Tensor) -> Tensor:
        nodes, edges = self.inlet(x), self.edges(x).tanh()
        for layer in [*self.encoder, *self.decoder]:
            nodes, edges = layer(nodes, edges)
        out: Tensor = self.outlet(nodes.mean(1))
        return out


class Message(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f, self.g = nn.Linear(2 * WIDTH, WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        nodes = nodes + self.f(torch.cat([nodes, edges], -1)).tanh()
        return nodes, edges + self.g(torch.cat([nodes, edges], -1)).tanh()


class Tagger(nn.Module):
    """Convolutions over a sequence, then an LSTM, then a tag for each sequence, or for each position."""

    def __init__(self, *, each: bool = False) -> None:
        super().__init__()
        self.each = each
        self.convolutions = nn.ModuleList(
            nn.Conv1d(FEATURES if not i else WIDTH, WIDTH, 3, padding=1) for i in range(3)
        )
        self.lstm, self.outlet = nn.LSTM(WIDTH, WIDTH, 2, batch_first=True), nn.Linear(WIDTH, CLASSES)
        draw(self, 0)

    def forward(self, x: Tensor) -> Tensor:
        h = x.transpose(1, 2)
        for convolution in self.convolutions:
            h = convolution(h).relu()
        memory = self.lstm(h.transpose(1, 2))[0]
        out: Tensor = self.outlet(memory if self.each else memory[:, -1])
        return out


@pytest.mark.parametrize(("each", "rule"), [(False, "mean"), (True, "all")])
@pytest.mark.parametrize("length", [LENGTH, WIDTH])
def test_the_channels_of_a_convolution_over_a_sequence_are_features_not_tokens(
    each: bool, rule: str, length: int
) -> None:
    model, inputs = Tagger(each=each), images(6, shape=(length, FEATURES)).inputs
    stream = find_stream(model)
    stream.settle(inputs)
    forward = stream.run(inputs)
    assert stream.rule == rule
    assert [tuple(state.shape[1:]) for state in forward.hiddens[:2]] == [(length, WIDTH)] * 2
    first = model.convolutions[0](inputs.transpose(1, 2)).relu()
    torch.testing.assert_close(forward.hiddens[0], first.transpose(1, 2))
    memory = model.lstm(model.convolutions[2](model.convolutions[1](first).relu()).relu().transpose(1, 2))[0]
    torch.testing.assert_close(forward.hiddens[2], memory if each else memory[:, -1])


class TwoStreams(nn.Module):
    """Blocks with two states, the first of which only serves the second, as pixels serve patches."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f, self.g = nn.Linear(WIDTH, WIDTH), nn.Linear(2 * WIDTH, WIDTH)

        def forward(self, fine: Tensor, coarse: Tensor) -> tuple[Tensor, Tensor]:
            fine = fine + self.f(fine).tanh()
            return fine, coarse + self.g(torch.cat([fine, coarse], -1)).tanh()

    def __init__(self) -> None:
        super().__init__()
        self.inlet, self.outlet = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.layers = nn.ModuleList(self.Block() for _ in range(3))
        draw(self, 0)

    def states(self, x: Tensor) -> list[Tensor]:
        fine = self.inlet(x)
        coarse = [fine.tanh()]
        for layer in self.layers:
            fine, new = layer(fine, coarse[-1])
            coarse.append(new)
        return coarse

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.outlet(self.states(x)[-1])
        return out


@pytest.mark.parametrize("blocks", [None, "layers"])
def test_of_two_states_the_one_that_is_read_is_the_stream(blocks: str | None) -> None:
    model = TwoStreams()
    stream = find_stream(model, blocks)
    for state, expected in zip(stream.run(BATCH.inputs).hiddens, model.states(BATCH.inputs), strict=True):
        torch.testing.assert_close(state, expected)
    assert check_gradient(stream, BATCH, cross_entropy).passed


class Doubled(nn.Module):
    """A block that returns its state twice, of which the model takes the second."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Skip()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.block(x)
        return h, h


def test_a_state_that_is_returned_twice_is_one_state() -> None:
    class Second(Stages):
        def forward(self, x: Tensor) -> Tensor:
            h = self.inlet(x)
            for layer in self.layers:
                _, h = layer(h)
            return self.readout(h)

    model = Second(3, layer=Doubled)
    assert audit(model, [images(8, seed) for seed in range(2)]).provenance.guards["gradient"].passed


class GroupsInTurn(Stages):
    """The first layer three times, then the second three times."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        for layer in self.layers:
            for _ in range(3):
                h = h + layer(h)
        return self.readout(h)


@pytest.mark.parametrize("blocks", [None, "layers"])
def test_blocks_that_are_called_several_times_each_are_one_stream(blocks: str | None) -> None:
    stream = find_stream(GroupsInTurn(2), blocks)
    assert len(stream.run(BATCH.inputs).hiddens) == 7
    assert check_gradient(stream, BATCH, cross_entropy).passed


class DenseBlock(nn.Module):
    """Concatenates what it computes to what it was given."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(width, 4), nn.Linear(width + 4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([x, self.one(x).tanh()], -1)
        return torch.cat([x, self.two(x).tanh()], -1)


class DenseNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inlet, self.outlet = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH + 32, CLASSES)
        self.blocks = nn.Sequential(*[DenseBlock(WIDTH + 8 * index) for index in range(4)])
        draw(self, 0)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.outlet(self.blocks(self.inlet(x)))
        return out


@pytest.mark.parametrize(
    ("make", "shape", "title"),
    [
        (EncoderDecoder, (LENGTH, FEATURES), "3 x TransformerEncoderLayer"),
        (Messages, (LENGTH, FEATURES), "3 x Message"),
        (DenseNet, (FEATURES,), "4 x DenseBlock"),
        (Tagger, (LENGTH, FEATURES), "2 x Conv1d"),
    ],
)
def test_other_shapes_of_network_are_found_and_audited(
    make: type[nn.Module], shape: tuple[int, ...], title: str
) -> None:
    report = audit(make(), [images(8, seed, shape) for seed in range(2)])
    assert report.provenance.guards["stream"].text.startswith(f"{title} found by structure")
    assert report.provenance.guards["gradient"].passed
    assert report.findings["D11"].status.value == "pass"


def test_the_search_leaves_the_model_alone() -> None:
    model = SideTower()
    with undisturbed(model):
        discover(model, BATCH.inputs)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
