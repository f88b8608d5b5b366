"""The front door: verdicts of networks whose faults are known, models left alone, mistakes explained."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.foreign_models import (
    CLASSES,
    FEATURES,
    WIDTH,
    Branches,
    Skip,
    Tokens,
    batches,
    branch,
    cut,
    draw,
    images,
    stages,
    unchanged,
)
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from creditscope import Report, audit
from creditscope.auditing.measures import bad_weights
from creditscope.batch import Batch
from creditscope.errors import CreditscopeError, InvalidInput, NotDeterministic, NotTheGradient, UnknownName
from creditscope.networks.build import build
from creditscope.provenance import Guard, GuardStatus
from creditscope.verdict import Reason, Status


def network(**options: Any) -> nn.Module:
    return build("resmlp", FEATURES, CLASSES, 0, **{"d": WIDTH, "depth": 3, "w2_std": 0.3, **options})


def exploded() -> nn.Module:
    """Each block multiplies the stream a hundredfold and more; the terminal norm hides it."""
    return network(w2_std=1e9)


def fitted() -> tuple[nn.Module, list[Batch]]:
    """A stream that explodes through one block, and answers so sure that hardly any error is left."""
    model, given = network(w2_std=40.0), batches(2, 128)
    with torch.no_grad():
        model.out_head.weight.mul_(1e4)
    return model, [Batch(x, model(x).argmax(1)) for x, _ in given]


# --- verdicts ---


@pytest.mark.parametrize(
    ("control", "verdict", "code"),
    [(0.1, "PASS", 0), (0.49, "INCONCLUSIVE(D3)", 3), (0.7, "FAIL(D3)", 1), (None, "INCONCLUSIVE(D3)", 3)],
)
def test_a_healthy_network_is_judged_by_its_control(control: float | None, verdict: str, code: int) -> None:
    report = audit(network(), batches(3, 128), accuracy=0.5, control_accuracy=control)
    assert (str(report.verdict), report.verdict.exit_code) == (verdict, code)


def test_an_exploded_network_fails_by_scale_and_reference_together() -> None:
    report = audit(exploded(), batches(2, 128), accuracy=0.5, control_accuracy=0.1)
    assert str(report.verdict) == "FAIL(D1+D1:stream+D2:tail)"
    assert report.findings["D2"].cause == "collapsed"
    assert report.verdict.shown == ("exploded block", "exploded stream")
    assert "Γ as usually computed is invalid" in str(report).replace("\n", " ")
    three = audit(exploded(), batches(2, 128), accuracy=0.5, control_accuracy=0.6, protocol="three")
    assert str(three.verdict) == "FAIL(D1+D2+D3)"


def test_a_network_that_fits_its_data_is_not_called_collapsed() -> None:
    model, given = fitted()
    report = audit(model, given, control_accuracy=0.1)
    assert {code: report.findings[code].status for code in ("D1", "D2", "D3")} == {
        "D1": "fires",
        "D2": "fires",
        "D3": "pass",
    }
    assert (report.findings["D2"].cause, str(report.verdict)) == ("fitted", "PASS")
    assert str(audit(model, given, control_accuracy=0.1, protocol="four").verdict).startswith(
        "needs walk-back: (a) scale; (b)"
    )


def test_the_profiles_speak_of_the_same_numbers_in_their_own_words() -> None:
    given = batches(2, 128)
    four = audit(exploded(), given, accuracy=0.5, control_accuracy=0.5, protocol="four", thresholds={"D4": 1.0})
    assert str(four.verdict) == "needs walk-back: (a) scale; (b) reference; (d) depth"
    april = audit(network(), given, accuracy=0.5, protocol="april", thresholds={"D4": 1.0})
    assert str(april.verdict) == "incomplete: (d) not measured"
    assert april.findings["D1"].title == "Scale relative to layer 0"
    trusted = audit(network(), given, accuracy=0.5, control_accuracy=0.1, protocol="four", thresholds={"D4": 1.0})
    assert str(trusted.verdict) == "trustworthy"


def test_a_limit_of_the_user_decides_and_is_written_down() -> None:
    report = audit(network(), batches(2, 64), accuracy=0.5, control_accuracy=0.1, thresholds={"D1": 1.0, "D2": 10})
    assert report.findings["D1"].status == "fires"
    assert report.findings["D1"].limit.origin == "set by the user; the calibrated limit is 50"
    assert Report.parse(report.to_json()).to_json() == report.to_json()


def poisoned(where: str, value: float) -> tuple[nn.Module, list[Batch]]:
    model, given = network(), batches(2, 128)
    with torch.no_grad():
        if where == "an early weight":
            model.embed.weight[0, 0] = value
        elif where == "a block":
            model.blocks[1].w2.weight[2, 3] = value
        elif where == "the read-out":
            model.out_head.bias[1] = value
        elif where == "an idle parameter":
            model.register_parameter("idle", nn.Parameter(torch.tensor([1.0, value])))
        elif where == "one image":
            given[1].inputs[7, 3] = value
        else:
            given = [Batch(torch.full_like(x, value), y) for x, y in given]
    return model, given


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "where", ["an early weight", "a block", "the read-out", "an idle parameter", "one image", "all images"]
)
def test_one_number_that_is_not_finite_fails_a_network_without_a_crash(where: str, value: float) -> None:
    model, given = poisoned(where, value)
    report = audit(model, given, accuracy=0.9, control_accuracy=0.1)
    assert report.findings["D0"].status == "fires"
    assert str(report.verdict) == "FAIL(D0)"
    assert str(Report.parse(report.to_json()).verdict) == "FAIL(D0)"
    assert Report.parse(report.to_json()).to_json() == report.to_json()
    for protocol in ("four", "april"):
        assert "non-finite" in str(audit(model, given, accuracy=0.9, control_accuracy=0.1, protocol=protocol).verdict)


def test_weights_that_are_not_finite_are_counted_in_any_precision_and_large_ones_are_not() -> None:
    model = nn.Module()
    model.wide = nn.Parameter(torch.full((3, 3), 1e300, dtype=torch.float64))
    model.single = nn.Parameter(torch.full((4,), 3e38))  # finite, but not its sum
    model.register_buffer("coarse", torch.ones(5, dtype=torch.bfloat16))
    model.register_buffer("whole", torch.ones(2).long())
    assert bad_weights(model) == 0
    with torch.no_grad():
        model.wide[1] = torch.inf
        model.coarse[0] = torch.nan
    assert bad_weights(model) == 4
    assert bad_weights(nn.Module()) == 0


def test_infinities_in_buffers_are_masks_and_nan_in_them_is_a_fault() -> None:
    model = nn.Module()
    model.weight = nn.Parameter(torch.ones(3))
    model.register_buffer("mask", torch.full((4, 4), -torch.inf).triu(1))
    model.register_buffer("bounds", torch.tensor([-torch.inf, 0.0, torch.inf]))  # its sum is NaN
    assert bad_weights(model) == 0
    model.bounds[1] = torch.nan
    assert bad_weights(model) == 1
    with torch.no_grad():
        model.weight[0] = -torch.inf
    assert bad_weights(model) == 2


def test_a_network_with_a_causal_mask_of_minus_infinity_is_finite() -> None:
    class Causal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
            self.register_buffer("mask", torch.full((4, 4), -torch.inf).triu(1))

        def forward(self, h: Tensor) -> Tensor:
            return h + self.attention(h, h, h, attn_mask=self.mask, need_weights=False)[0]

    model = Tokens()
    model.layers = nn.ModuleList(Causal() for _ in range(2))
    report = audit(model, [images(8, seed=seed, shape=(4, FEATURES)) for seed in range(2)])
    assert report.findings["D0"].status == "pass"


def test_a_diverged_network_never_passes_whatever_else_is_known() -> None:
    model = Branches()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(math.nan)
    report = audit(model, batches(3, 16), blocks="layers", accuracy=0.9, control_accuracy=0.1)
    assert report.verdict.outcome == "fail"
    assert {report.findings[code].status for code in ("D1", "D2", "D4")} == {"undefined"}


# --- numbers ---


def test_the_same_images_cut_in_any_way_give_the_same_report() -> None:
    model, whole = network(), images(1280)
    reports = [audit(model, cut(whole, size), control_accuracy=0.1) for size in (16, 128, 640)]
    for code in ("D1", "D2", "D3", "D4"):
        values = [report.findings[code].value for report in reports]
        assert values == pytest.approx([values[0]] * 3, rel=1e-4)
    assert [report.provenance.batches for report in reports] == [80, 10, 2]
    assert {report.provenance.images for report in reports} == {1280}


def test_the_reference_floor_does_not_move_with_the_batch_size() -> None:
    model, whole = network(), images(512)
    alone = [audit(model, [batch], accuracy=0.5).findings["D2"].value for batch in (images(8), images(64), images(512))]
    assert max(alone) / min(alone) < 1.6  # a mean loss would make it 64
    pieces = audit(model, cut(whole, 8), accuracy=0.5).findings["D2"].value
    assert pieces == pytest.approx(audit(model, [whole], accuracy=0.5).findings["D2"].value, rel=1e-5)


def test_a_list_a_generator_and_a_data_loader_give_the_same_report() -> None:
    model, whole = network(), images(192)
    listed = cut(whole, 64)
    loader = DataLoader(TensorDataset(*whole), batch_size=64)
    found = [audit(model, form).findings for form in (listed, iter(listed), (batch for batch in listed), loader)]
    assert all(each == found[0] for each in found)


def test_hooks_see_what_the_network_shows() -> None:
    model, given = network(), batches(2, 128)
    shown, hooked = audit(model, given), audit(model, given, blocks="blocks")
    for code in ("D0", "D1", "D2", "D4"):
        assert hooked.findings[code].value == pytest.approx(shown.findings[code].value, rel=1e-4)
    names = audit(model, given, blocks=[f"blocks.{index}" for index in range(3)])
    assert names.findings == hooked.findings


def test_the_accuracy_is_measured_where_it_is_not_given() -> None:
    model, given = network(), batches(4, 50)
    right = sum(int((model(x).argmax(1) == y).sum()) for x, y in given)
    report = audit(model, given, control_accuracy=0.1)
    assert report.accuracy == (right / 200,)
    assert "single seed: 3 points assumed" in report.findings["D3"].note
    assert "200 test images" in report.findings["D3"].note
    stated = audit(model, given, accuracy=0.7, control_accuracy=(0.1, 0.2))
    assert (stated.accuracy, stated.control_accuracy) == ((0.7,), (0.1, 0.2))
    typed = audit(model, given, accuracy=0.7, control_accuracy=0.1).findings["D3"]
    assert typed.interval == pytest.approx((50.0, 70.0))
    assert "undecided within 10 points of the limit" in typed.note


def test_one_batch_leaves_drift_unmeasured_and_says_so() -> None:
    report = audit(network(), batches(1, 100), accuracy=0.5, control_accuracy=0.1)
    assert (report.findings["D4"].status, str(report.verdict)) == ("skipped", "PASS")
    assert report.findings["D4"].note == "needs at least two disjoint batches, got one"
    four = audit(network(), batches(1, 100), accuracy=0.5, control_accuracy=0.1, protocol="four")
    assert str(four.verdict) == "incomplete: (c) not measured"


@pytest.mark.parametrize("read", ["auto", "first", "mean", "all", 2, -1])
def test_tokens_are_read_as_asked(read: Any) -> None:
    model, given = Tokens().eval(), batches(2, 16, shape=(4, FEATURES))
    report = audit(model, given, blocks="layers", read=read)
    states = [model.inlet(torch.cat([x for x, _ in given]))]
    for layer in model.layers:
        states.append(layer(states[-1]))
    for state, found in zip(states, report.measures["hidden_norm"].per_layer, strict=True):
        chosen = {
            "auto": state[:, 0],
            "first": state[:, 0],
            "mean": state.norm(dim=2).square().mean(1, keepdim=True).sqrt(),
            "all": state.reshape(-1, WIDTH),
        }
        vectors = chosen[read] if isinstance(read, str) else state[:, read]
        slow = sorted(vectors.detach().double().norm(dim=1).tolist())[(len(vectors) - 1) // 2]
        assert found == pytest.approx(slow, rel=1e-4)
    assert report.provenance.read == ("first" if read == "auto" else str(read))  # what its read-out consumes


@pytest.mark.parametrize("name", ["small_cnn", "small_resnet", "vit_mini", "student_net"])
def test_every_kind_of_stream_can_be_audited(name: str) -> None:
    model = build(name, (3, 16, 16), CLASSES, 0)
    report = audit(model, batches(2, 12, shape=(3, 16, 16)), control_accuracy=0.1)
    assert report.subject.depth == len(model.blocks)
    assert all(report.findings[code].value is not None for code in ("D0", "D1", "D2", "D3", "D4"))


def test_a_stream_that_changes_its_width_has_norms_and_drift_at_every_layer() -> None:
    widths = [FEATURES, 8, 20, 6]
    model = nn.Sequential(*[nn.Sequential(nn.Linear(a, b), nn.Tanh()) for a, b in pairwise(widths)])
    model.append(nn.Linear(6, CLASSES))
    draw(model, 0)
    report = audit(model, batches(2, 128), blocks=["0", "1", "2"], accuracy=0.5)
    assert len(report.findings["D1"].per_layer) == 3
    assert len(report.findings["D4"].per_layer) == 4
    assert report.findings["D4"].status == "measured"


class Words(nn.Module):
    """Token numbers in, torch's own encoder, a mean over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.outlet = nn.Linear(WIDTH, CLASSES)
        draw(self, 0)

    def forward(self, ids: Tensor) -> Tensor:
        out: Tensor = self.outlet(self.encoder(self.words(ids)).mean(1))
        return out


def test_token_numbers_with_a_frozen_embedding_have_the_gradients_of_a_free_one() -> None:
    generator = torch.Generator().manual_seed(0)
    given = [(torch.randint(0, 50, (16, 6), generator=generator), images(16, seed=seed).labels) for seed in range(3)]
    free, frozen = Words(), Words().requires_grad_(False)
    with unchanged(frozen):
        named = audit(frozen, [({"ids": ids}, y) for ids, y in given], blocks="encoder.layers", read="mean")
    expected = audit(free, given, blocks="encoder.layers", read="mean")
    assert named.provenance.guards["gradient"].passed
    for code in ("D1", "D2", "D4"):
        assert named.findings[code].per_layer == pytest.approx(expected.findings[code].per_layer, rel=1e-4)


def test_recurrent_layers_that_return_tuples_can_be_audited() -> None:
    class Recurrent(Tokens):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.LSTM(WIDTH, WIDTH, batch_first=True) for _ in range(2))
            draw(self, 0)

        def forward(self, x: Tensor) -> Tensor:
            h = self.inlet(x)
            for layer in self.layers:
                h, _ = layer(h)
            out: Tensor = self.outlet(h[:, -1])
            return out

    model = Recurrent()
    with unchanged(model):
        report = audit(model, batches(2, 16, shape=(4, FEATURES)), blocks="layers", read=-1)
    assert report.provenance.guards["gradient"].passed


def test_a_network_without_blocks_has_no_growth_but_a_reference() -> None:
    report = audit(network(depth=0), batches(2, 16), accuracy=0.5, control_accuracy=0.1)
    assert (report.findings["D1"].status, report.findings["D2"].status) == ("skipped", "pass")
    assert str(report.verdict) == "PASS"


def test_a_network_without_blocks_is_not_asked_for_a_control_with_frozen_ones() -> None:
    report = audit(network(depth=0), batches(2, 16))
    depth = report.findings["D3"]
    assert (depth.status, depth.reason) == (Status.SKIPPED, Reason.NOT_APPLICABLE)
    assert depth.note == "the network has no blocks that could be frozen"
    assert "--controls" not in depth.remedy
    assert str(report.verdict) == "INCONCLUSIVE(D3)"
    assert audit(network(depth=1), batches(2, 16)).findings["D3"].reason is Reason.NO_CONTROL


def test_another_loss_may_take_the_place_of_cross_entropy() -> None:
    def squared(logits: Tensor, labels: Tensor) -> Tensor:
        return (logits[:, 0] - labels).square()

    given = [(x, y.float()) for x, y in batches(2, 32)]
    report = audit(network(), given, loss_fn=squared, control_accuracy=0.1)
    assert report.accuracy is None
    assert (report.findings["D3"].status, str(report.verdict)) == ("skipped", "INCONCLUSIVE(D3)")


def test_the_report_says_what_was_audited_and_with_what() -> None:
    model = network()
    report = audit(model, batches(2, 16), name="DFA", notes="seed 42", accuracy=0.5, check_gradient=False)
    assert (report.subject.name, report.subject.notes, report.subject.model) == ("DFA", "seed 42", "ResidualMLP")
    assert report.subject.parameters == sum(parameter.numel() for parameter in model.parameters())
    provenance = report.provenance
    assert (provenance.images, provenance.batches, provenance.dtype, provenance.device) == (32, 2, "float32", "cpu")
    assert provenance.torch == torch.__version__
    passed = dict.fromkeys(("deterministic", "independent", "disjoint"), Guard(GuardStatus.PASSED))
    assert provenance.guards == {**passed, "gradient": Guard(GuardStatus.OFF)}
    checked = audit(model, batches(2, 16)).provenance.guards["gradient"]
    assert checked == Guard(GuardStatus.PASSED, "finite difference within 0.01 %, in float64")
    assert audit(model, batches(2, 16)).subject.name == "ResidualMLP"


# --- the model comes back as it was given ---


class Stateful(nn.Module):
    """BatchNorm and dropout in the residual branch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.dropout = nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Dropout(0.5)

    def forward(self, h: Tensor) -> Tensor:
        out: Tensor = self.dropout(torch.relu(self.norm(self.linear(h))))
        return out


def stateful() -> Branches:
    model = Branches(layer=Stateful).train()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for seed in range(3):
            model(images(32, seed=seed).inputs)
    return model


def mixed_modes() -> nn.Module:
    model = stateful()
    model.layers[1].eval()
    model.layers[2].dropout.eval()
    return model


def partly_frozen() -> nn.Module:
    model = stateful()
    model.inlet.requires_grad_(False)
    model.layers[1].requires_grad_(False)
    return model


def with_gradients() -> nn.Module:
    model = stateful()
    for parameter in model.layers.parameters():
        parameter.grad = torch.randn_like(parameter)
    return model


MODELS: dict[str, Callable[[], nn.Module]] = {
    "in train mode": stateful,
    "in mixed modes": mixed_modes,
    "in evaluation mode": lambda: stateful().eval(),
    "partly frozen": partly_frozen,
    "frozen": lambda: stateful().requires_grad_(False),
    "with gradients": with_gradients,
    "in float64": lambda: stateful().double(),
    "in half precision": lambda: stateful().half(),
    "in bfloat16": lambda: stateful().bfloat16(),
    "with whole states": stages,
}


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("kind", MODELS)
def test_a_model_comes_back_exactly_as_it_was_given(kind: str, mode: Callable[[], Any]) -> None:
    model, given = MODELS[kind](), batches(3, 40)
    with mode(), unchanged(model):
        report = audit(model, given, blocks="layers", accuracy=0.5, control_accuracy=0.1)
    assert report.findings["D0"].status == "pass"
    assert not any(x.requires_grad for x, _ in given)


@pytest.mark.parametrize("kind", ["partly frozen", "frozen"])
def test_what_is_frozen_changes_no_number(kind: str) -> None:
    given = batches(2, 128)
    frozen, free = (audit(MODELS[each](), given, blocks="layers").findings for each in (kind, "in train mode"))
    for code in ("D1", "D2", "D4"):
        assert frozen[code].per_layer == pytest.approx(free[code].per_layer, rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gives_the_numbers_of_float32_as_far_as_it_goes(dtype: torch.dtype) -> None:
    given = batches(2, 128)
    full, half = (audit(network().to(each), given, accuracy=0.5).findings for each in (torch.float32, dtype))
    for code in ("D1", "D2"):
        assert half[code].value == pytest.approx(full[code].value, rel=0.05)


def test_a_model_comes_back_after_an_error_too() -> None:
    model = mixed_modes()
    with unchanged(model):
        for bad in ([], [(torch.zeros(4, 3), torch.zeros(4).long())], [(images(4).inputs, torch.full((4,), 99))]):
            with pytest.raises(CreditscopeError):
                audit(model, bad, blocks="layers")


def test_a_shuffling_loader_leaves_the_users_random_numbers_alone() -> None:
    loader = DataLoader(TensorDataset(*images(64)), batch_size=32, shuffle=True)
    model = network()
    with unchanged(model):
        audit(model, loader)


def test_a_training_loop_goes_on_as_if_nothing_had_happened() -> None:
    def trained(audited: bool) -> Tensor:
        torch.manual_seed(3)
        model = stateful()
        for x, y in batches(4, 32):
            model.zero_grad()
            loss = F.cross_entropy(model(x), y)
            if audited:
                audit(model, batches(2, 16), blocks="layers")
            loss.backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.1 * parameter.grad
        return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])

    assert torch.equal(trained(audited=True), trained(audited=False))


# --- work and memory ---


class Counted(nn.Module):
    """A branch that counts its forward and backward passes."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.forwards, self.backwards = branch(), 0, 0

    def forward(self, h: Tensor) -> Tensor:
        self.forwards += 1
        out: Tensor = self.inner(h)
        if out.requires_grad:
            out.register_hook(self._count)
        return out

    def _count(self, gradient: Tensor) -> None:
        self.backwards += 1


@pytest.mark.parametrize("guarded", [True, False])
def test_each_batch_costs_one_forward_and_one_backward_pass(guarded: bool) -> None:
    passes = []
    for count in (2, 12):
        model = Branches(layer=Counted)
        audit(model, batches(count, 16), blocks="layers", check_gradient=guarded)
        passes.append([(layer.forwards, layer.backwards) for layer in model.layers])
    for few, many in zip(*passes, strict=True):
        assert (many[0] - few[0], many[1] - few[1]) == (10, 10)


def test_earlier_batches_and_their_states_are_gone_when_a_new_one_is_asked_for() -> None:
    made: list[weakref.ref[Tensor]] = []
    alive: list[int] = []
    tensors: list[int] = []

    def source() -> Iterator[tuple[Tensor, Tensor]]:
        for index in range(200):
            alive.append(sum(reference() is not None for reference in made))
            if index in (2, 100, 199):  # whatever has one row for each image of a batch, states and gradients too
                known = [each for each in gc.get_objects() if issubclass(type(each), Tensor)]
                tensors.append(sum(each.dim() > 0 and len(each) == 17 for each in known))
                del known
            inputs, labels = images(17, seed=index)
            made.append(weakref.ref(inputs))
            yield inputs, labels
            del inputs, labels

    audit(Branches(), source(), blocks="layers", accuracy=0.5)
    assert len(alive) == 200
    assert max(alive) == 0
    assert tensors == [0, 0, 0]


def test_while_a_batch_is_run_nothing_of_the_one_before_is_left() -> None:
    found: list[int] = []

    class Watched(Branches):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            if self.calls == 12:
                known = [each for each in gc.get_objects() if issubclass(type(each), Tensor)]
                found.extend(each.shape[-1] for each in known if each.dim() == 2 and len(each) == 19)
            return super().forward(x)

    audit(Watched(), (images(19, seed=index) for index in range(12)), blocks="layers", accuracy=0.5)
    assert set(found) == {FEATURES}  # the inputs and their copy, no state and no gradient


# --- mistakes are explained ---


def message(error: type[CreditscopeError], *args: Any, **options: Any) -> str:
    with pytest.raises(error) as caught:
        audit(*args, **options)
    return str(caught.value)


def test_inputs_that_the_network_cannot_take_are_explained() -> None:
    found = message(InvalidInput, network(), [(torch.zeros(4, 3), torch.zeros(4).long())])
    assert found.startswith("ResidualMLP cannot take inputs of shape (4, 3): ")
    assert "Check that the batches are the ones this network was trained on." in found
    later = [images(4), Batch(torch.zeros(4, 3), torch.zeros(4).long())]
    assert "cannot take inputs of shape (4, 3)" in message(InvalidInput, network(), later)
    packed = [({"x": torch.zeros(4, 3)}, torch.zeros(4).long())]
    assert "cannot take inputs of shape dict" in message(InvalidInput, Branches(), packed, blocks="layers")


@pytest.mark.parametrize(
    "error", [AssertionError, KeyError, AttributeError, NotImplementedError, ValueError, IndexError]
)
def test_whatever_a_model_raises_about_its_inputs_is_explained(error: type[Exception]) -> None:
    class Picky(Branches):
        def forward(self, x: Tensor) -> Tensor:
            raise error("wrong size")

    assert "Picky cannot take inputs of shape (8, 12)" in message(InvalidInput, Picky(), batches(1, 8), blocks="layers")


def test_a_backward_pass_that_cannot_be_run_is_explained() -> None:
    class Spoilt(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = branch()

        def forward(self, h: Tensor) -> Tensor:
            saved = torch.exp(self.f(h))
            out = saved * 1.0
            saved.zero_()  # exp saved its answer for the backward pass
            return out

    assert "modified by an inplace operation" in message(
        CreditscopeError, Branches(layer=Spoilt), batches(1, 8), blocks="layers"
    )


def test_wrong_batches_and_labels_are_refused() -> None:
    assert message(InvalidInput, network(), []).startswith("There are no batches.")
    x, y = images(4)
    assert "the model has 5 classes" in message(InvalidInput, network(), [(x, y + 5)])
    assert "not class numbers" in message(InvalidInput, network(), [(x, y.float())])
    assert "not one class number per sample" in message(InvalidInput, network(), [(x, y[:, None])])
    assert "hold the same samples" in message(InvalidInput, network(), [(x, y), (x, y)])


def test_wrong_numbers_and_names_are_refused_before_anything_runs() -> None:
    class Untouchable(Branches):
        def forward(self, x: Tensor) -> Tensor:
            raise AssertionError("it ran")

    model, given = Untouchable(), batches(1, 8)
    assert "accuracy = 31 is not a share" in message(InvalidInput, model, given, accuracy=31)
    assert "control_accuracy = 34.2" in message(InvalidInput, model, given, control_accuracy=[0.3, 34.2])
    assert "Did you mean 'three'?" in message(UnknownName, model, given, protocol="tree")
    assert "no diagnostic called 'D14'. Did you mean 'D" in message(UnknownName, model, given, thresholds={"D14": 1})
    assert "no diagnostic called 'D1:april'" in message(UnknownName, model, given, thresholds={"D1:april": 1})
    for bad in (math.nan, "50", None):
        assert "The threshold of D1 is " in message(InvalidInput, model, given, thresholds={"D1": bad})
    assert "Did you mean 'layers'?" in message(UnknownName, model, given, blocks="layer")
    assert "read='last'" in message(InvalidInput, model, given, blocks="layers", read="last")


def test_a_model_with_a_backward_of_its_own_or_with_noise_is_refused() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return 2 * gradient

    class Lying(Skip):
        def forward(self, h: Tensor) -> Tensor:
            out: Tensor = h + Doubled.apply(self.f(h))
            return out

    class Restless(Skip):
        def forward(self, h: Tensor) -> Tensor:
            return h + F.dropout(self.f(h), 0.5)

    given = batches(2, 16)
    assert "promises" in message(NotTheGradient, stages().__class__(layer=Lying), given, blocks="layers")
    audit(stages().__class__(layer=Lying), given, blocks="layers", check_gradient=False)
    for checked in (True, False):
        assert "two different logits" in message(
            NotDeterministic, stages().__class__(layer=Restless), given, blocks="layers", check_gradient=checked
        )


def test_a_convolutional_stream_whose_resolution_changes_can_be_read_at_all_positions_or_says_why_not() -> None:
    model = build("small_cnn", (3, 16, 16), CLASSES, 0)
    with pytest.raises(CreditscopeError, match="read='all'"):
        audit(model, batches(2, 8, shape=(3, 16, 16)), read="all")
