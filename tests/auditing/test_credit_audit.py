"""audit(..., credit=): what an author about to print an alignment learns about it."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save
from tests.probes.subjects import backprop, batches, dfa, fa, network, noise
from torch import nn

from creditscope import Report, audit
from creditscope.batch import Batch
from creditscope.credit import CreditSource, NoCredit
from creditscope.evidence.alignment import exact_cosines
from creditscope.records.folder import WEIGHTS, write_run
from creditscope.runs.audit import audit_checkpoint
from creditscope.runs.run import load, load_data, train
from creditscope.runs.spec import RunSpec
from creditscope.stream.find import find_stream
from creditscope.stream.trace import capture, cross_entropy

ADVISORY = ("D5", "D6", "D7", "D8", "D9")


@pytest.fixture(scope="module")
def net():
    return network()


@pytest.fixture(scope="module")
def given():
    return batches(1024)


@pytest.fixture(scope="module")
def by_backprop(net, given):
    return audit(net, given, credit=backprop(net), credit_local=False)


@pytest.fixture(scope="module")
def by_dfa(net, given):
    return audit(net, given, credit=dfa(net))


@pytest.fixture(scope="module")
def by_fa(net, given):
    return audit(net, given, credit=fa(net))


def test_the_gradient_as_credit_scores_one(by_backprop):
    gamma, rho, nudge = (by_backprop.measures[name] for name in ("gamma", "rho", "nudge"))
    assert gamma.per_layer == pytest.approx([1.0] * 4, abs=1e-9)
    assert gamma.value == pytest.approx(1.0)
    assert min(rho.per_layer) > 0.99
    assert max(nudge.per_layer) < 0
    statuses = {code: by_backprop.findings[code].status for code in ADVISORY}
    assert statuses == {"D5": "pass", "D6": "skipped", "D7": "pass", "D8": "pass", "D9": "skipped"}
    assert by_backprop.findings["D6"].reason == "not given"
    assert by_backprop.measures["label_dependence"].value > 0.5
    assert by_backprop.findings["D9"].value == pytest.approx(1.0)


def test_a_random_vector_as_credit_scores_nothing(net, given):
    report = audit(net, given, credit=noise(net))
    for name in ("gamma", "rho"):
        assert max(map(abs, report.measures[name].per_layer)) < 0.02
    assert report.findings["D6"].status == report.findings["D5"].status == "skipped"
    assert abs(report.measures["label_dependence"].value) < 0.02


def test_every_measure_has_its_deep_mean_and_one_number_per_layer(by_dfa):
    for name in ("gamma", "gamma_clamped", "rho", "rho_absolute", "nudge", "nudge_absolute"):
        measure = by_dfa.measures[name]
        assert len(measure.per_layer) == 4
        assert measure.value == pytest.approx(sum(measure.per_layer[1:]) / 3)
        assert f"layer 0 separately: {measure.per_layer[0]:.3g}" in measure.note
    clamped = by_dfa.measures["gamma_clamped"].per_layer
    assert by_dfa.measures["gamma_clamped_mean"].value == pytest.approx(sum(clamped) / 4)
    assert "the backprop gradient itself scores" in by_dfa.measures["rho_absolute"].note


def test_gamma_is_the_mean_over_all_images_however_they_are_cut(net, given):
    source, stream = dfa(net), batches(300)
    whole = torch.cat([batch.inputs for batch in stream]), torch.cat([batch.labels for batch in stream])
    one, many = audit(net, [whole], credit=source), audit(net, stream, credit=source)
    slow = [
        exact_cosines(a, g).mean().item()
        for a, g in zip(source.signals(type(given[0])(*whole)), _gradients(net, whole), strict=True)
    ]
    assert many.measures["gamma"].per_layer == pytest.approx(slow, abs=1e-6)
    assert one.measures["gamma"].per_layer == pytest.approx(slow, abs=1e-6)


def _gradients(net, whole):
    states = net.states(whole[0])
    loss = nn.functional.cross_entropy(net.readout(states[-1]), whole[1], reduction="sum")
    return torch.autograd.grad(loss, states)


def test_dfa_and_fa_are_local_and_a_hidden_share_of_the_gradient_is_not(net, given, by_dfa, by_fa):
    assert by_dfa.findings["D9"].status == by_fa.findings["D9"].status == "pass"
    local = dfa(net)

    def quiet(batch):
        pairs = zip(local.signals(batch), backprop(net)(batch), strict=True)
        return [a / a.norm(dim=1, keepdim=True) + 0.01 * g / g.norm(dim=1, keepdim=True) for a, g in pairs]

    for credit in (quiet, backprop(net)):
        report = audit(net, given[:2], credit=credit)
        assert report.findings["D9"].status == "fires"
        assert any(warning.startswith("D9 Hidden backprop") for warning in report.verdict.warnings)
        assert report.verdict.outcome == audit(net, given[:2]).verdict.outcome


def test_an_exact_layer_is_marked_and_left_out_of_the_deep_mean(by_fa):
    gamma = by_fa.measures["gamma"]
    assert gamma.per_layer[3] == pytest.approx(1.0)
    assert gamma.value == pytest.approx(sum(gamma.per_layer[1:3]) / 2)
    assert f"without layer 3, exact by construction (with it {sum(gamma.per_layer[1:]) / 3:.3g})" in gamma.note


def test_credit_is_compared_with_chance_and_both_stand_in_the_report(by_dfa):
    assert "fresh feedback" in by_dfa.measures["gamma_null"].note
    assert len(by_dfa.findings["D6"].per_layer) == 4
    assert max(map(abs, by_dfa.measures["gamma_random"].per_layer)) < 0.02
    assert by_dfa.findings["D6"].status == "fires"  # random weights have not aligned to anything


@pytest.mark.parametrize("factor", [1e-10, 1e10])
def test_gamma_does_not_move_with_the_loss_or_the_credit_while_the_clamped_one_does(net, given, factor, by_dfa):
    source = dfa(net)
    report = audit(
        net,
        given,
        loss_fn=lambda logits, labels: factor * cross_entropy(logits, labels),
        credit=lambda batch: [a * factor for a in source.signals(batch)],
        check_gradient=False,
    )
    assert report.measures["gamma"].per_layer == pytest.approx(by_dfa.measures["gamma"].per_layer, abs=1e-6)
    assert report.measures["rho"].per_layer == pytest.approx(by_dfa.measures["rho"].per_layer, abs=1e-3)
    if factor < 1:
        assert abs(report.measures["gamma_clamped"].value) < 0.1 * abs(by_dfa.measures["gamma"].value)


def test_zero_credit_is_undefined_everywhere(net, given):
    report = audit(net, given[:2], credit=lambda batch: [0 * h for h in _states(net, batch)])
    assert all(math.isnan(report.measures[name].value) for name in ("gamma", "rho", "nudge"))
    assert (report.findings["D5"].status, report.findings["D6"].status) == ("skipped", "skipped")
    assert (report.findings["D13"].status, report.findings["D13"].value) == ("fires", 0.0)
    assert "undefined for up to 256 of 256 samples" in report.measures["gamma"].note


def _states(net, batch):
    return [state.detach() for state in net.states(batch.inputs)]


def collapsed_network():
    """A stream so large that the read-out passes almost nothing back."""
    net = network()
    with torch.no_grad():
        net.embed.weight *= 1e8
        net.blocks[0].w2.weight *= 1e11
    return net


def test_a_collapsed_reference_invalidates_the_clamped_gamma_and_leaves_the_exact_one_alone(given):
    net = collapsed_network()
    report = audit(net, given[:2], credit=dfa(net))
    assert report.findings["D2"].cause == "collapsed"
    for name in ("gamma_clamped", "gamma_clamped_mean", "rho_absolute", "nudge_absolute"):
        assert report.measures[name].note.startswith("invalid: the reference gradient lies below the clamp")
    for name in ("gamma", "rho", "nudge"):
        assert not report.measures[name].note.startswith("invalid")
        assert math.isfinite(report.measures[name].value)


def test_units_of_the_stream_do_not_move_the_exact_alignment(given):
    """A stream a million times as large behind a terminal LayerNorm: exact Γ stays, the clamped one falls to zero."""
    plain, large = network(), network()
    with torch.no_grad():
        for layer in (large.embed, *(block.w2 for block in large.blocks)):
            layer.weight *= 1e9
            layer.bias *= 1e9
    one, other = (audit(net, given[:2], credit=dfa(net)) for net in (plain, large))
    assert other.findings["D2"].cause == "collapsed"
    assert other.measures["gamma"].per_layer == pytest.approx(one.measures["gamma"].per_layer, abs=1e-4)
    assert max(map(abs, other.measures["gamma_clamped"].per_layer)) < 1e-2


def test_a_limit_of_the_user_for_d2_decides_the_gate_too(given):
    net = collapsed_network()
    report = audit(net, given[:2], credit=dfa(net), thresholds={"D2": 1e-30})
    assert report.measures["gamma"].cause == ""


def test_lost_credit_is_not_available_and_never_measured(net, given):
    report = audit(net, given[:2], credit=NoCredit("the checkpoint does not hold feedback.B.0"))
    assert math.isnan(report.measures["gamma"].value)
    assert report.measures["gamma"].cause == "not available"
    for code in ADVISORY:
        assert report.findings[code].status == "skipped"
        assert report.findings[code].note == "not available: the checkpoint does not hold feedback.B.0"


def test_without_credit_every_question_about_it_is_skipped_and_the_page_does_not_ask(net, given):
    report = audit(net, given[:2])
    assert {report.findings[code].note for code in ADVISORY} == {"no credit was given"}
    assert "gamma" not in report.measures
    assert "D7" not in str(report)


def test_the_whole_page_shows_the_numbers_per_layer(by_dfa):
    page = by_dfa.to("full")
    for heading in ("Γ", "Γ clamped", "z of Γ", "ρ", "nudge"):
        assert f"  {heading}" in page
    assert "Γ of random vectors" not in page


def test_the_report_survives_the_round_trip(by_dfa, tmp_path):
    by_dfa.to_json(tmp_path / "report.json")
    assert Report.from_json(tmp_path / "report.json").to_json() == by_dfa.to_json()


def test_the_same_audit_gives_the_same_numbers(net, given):
    one, two = (json.loads(audit(net, given[:2], credit=dfa(net)).to_json()) for _ in range(2))
    assert one["measures"] == two["measures"]
    assert one["findings"] == two["findings"]


def test_the_model_comes_back_as_it_was(net, given):
    net.train()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    places = [parameter.data_ptr() for parameter in net.parameters()]
    state = torch.get_rng_state()

    def careless(batch):
        nn.functional.cross_entropy(net(batch.inputs), batch.labels).backward()
        torch.rand(3)
        return backprop(net)(batch)

    audit(net, given[:2], credit=careless)
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert [parameter.data_ptr() for parameter in net.parameters()] == places
    assert all(parameter.grad is None for parameter in net.parameters())
    assert net.training
    assert torch.equal(torch.get_rng_state(), state)
    net.eval()


def test_a_diverged_network_gives_undefined_credit_and_no_error(given):
    net = network()
    with torch.no_grad():
        net.blocks[1].w1.weight[0, 0] = math.nan
    report = audit(net, given[:2], credit=dfa(net))
    assert report.findings["D0"].status == "fires"
    assert math.isnan(report.measures["gamma"].value)
    assert not any(report.findings[code].status == "pass" for code in ("D5", "D6", "D7", "D9"))


class Residual(CreditSource):
    """A source with a learned stand-in and an inference phase of its own."""

    def __init__(self, net):
        self.net = net

    def signals(self, batch):
        return tuple(backprop(self.net)(batch))

    def residual(self, batch, generator):
        return torch.tensor(float(len(batch.labels)))

    def answers(self, batch):
        return self.net(batch.inputs) + nn.functional.one_hot(batch.labels, 10)


def test_a_source_may_offer_a_residual_and_answers_of_its_own(net, given):
    report = audit(net, given[:2], credit=Residual(net))
    assert report.measures["bridge_residual"].value == 128.0
    assert report.findings["D8"].status == "fires"


@pytest.mark.parametrize(("name", "shape", "size"), [("vit_mini", (3, 8, 8), 8), ("small_cnn", (3, 8, 8), 8)])
def test_networks_with_tokens_and_channels_are_audited_too(name, shape, size):
    net = network(name, shape)
    report = audit(net, batches(16, size, shape), credit=backprop(net), credit_local=False)
    assert report.measures["gamma"].value == pytest.approx(1.0)
    assert report.measures["rho"].value > 0.99
    assert report.findings["D7"].status == "pass"


def test_a_checkpoint_is_audited_with_its_own_credit_and_its_drift(tmp_path):
    spec = RunSpec(method="dfa", penalty=1e-2, epochs=1, network_options={"d": 16, "depth": 2})
    checkpoint = load(train(spec).save(tmp_path / "run"))
    data = load_data(spec)
    probed = Batch(data.test.inputs[:256], data.test.labels[:256])  # what the history of a small dataset is measured on
    report = audit_checkpoint(checkpoint, replace(data, test=probed))
    assert report.measures["weight_drift"].value > 0
    assert report.measures["gamma"].per_layer == pytest.approx(checkpoint.record.history[-1].gamma, abs=1e-6)
    assert report.findings["D9"].status == "pass"


def test_a_checkpoint_without_its_feedback_has_no_gamma(tmp_path):
    spec = RunSpec(method="dfa", epochs=1, network_options={"d": 16, "depth": 2})
    folder = train(spec).save(tmp_path / "run")
    tensors = {name: t for name, t in load_file(folder / WEIGHTS).items() if not name.startswith("feedback.")}
    write_run(folder, save(tensors), train(spec).record)
    report = audit_checkpoint(load(folder), load_data(spec))
    assert report.measures["gamma"].note == ("not available: the checkpoint does not hold feedback.B.0 and 2 more")
    assert report.findings["D1"].status != "skipped"


def test_the_bridge_residual_of_a_checkpoint_is_in_its_report():
    spec = RunSpec(method="state_bridge", epochs=1, network_options={"d": 16, "depth": 2})
    checkpoint = train(spec)
    report = audit_checkpoint(checkpoint, load_data(spec))
    assert 0 < report.measures["bridge_residual"].value < 10
    assert report.findings["D9"].status == "pass"


class Plain(nn.Module):
    """A network of somebody else: blocks that return the next state, a shape of its own."""

    def __init__(self):
        super().__init__()
        drawn = torch.Generator().manual_seed(2)
        self.inlet = nn.Linear(40, 32)
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 32), nn.Tanh()) for _ in range(3))
        self.outlet = nn.Linear(32, 10)
        for parameter in self.parameters():
            nn.init.normal_(parameter, 0.0, 0.3, generator=drawn)

    def forward(self, x):
        h = self.inlet(x)
        for layer in self.layers:
            h = layer(h)
        return self.outlet(h)


def test_a_network_with_named_blocks_is_audited_with_credit_of_the_users_own(given):
    model = Plain()
    stream = find_stream(model, "layers")
    matrices = [torch.randn(10, 32, generator=torch.Generator().manual_seed(layer)) for layer in range(4)]

    def own_dfa(batch):
        return [_error(model, batch) @ matrix.to(batch.inputs) for matrix in matrices]

    def drawn(generator):
        other = [torch.randn(10, 32, generator=generator) for _ in range(4)]
        return lambda batch: [(_error(model, batch) @ matrix.to(batch.inputs)) for matrix in other]

    true = audit(model, given, blocks="layers", credit=lambda batch: list(capture(stream, batch).gradients))
    direct = audit(model, given, blocks="layers", credit=own_dfa, redraw=drawn)
    assert min(true.measures["gamma"].per_layer) == pytest.approx(1.0)
    assert min(true.measures["rho"].per_layer) > 0.99
    assert true.findings["D9"].status == "fires"
    assert direct.findings["D9"].status == "pass"
    assert direct.findings["D6"].status == "fires"


def _error(model, batch):
    return (model(batch.inputs).softmax(1) - nn.functional.one_hot(batch.labels, 10)).detach()


def test_every_token_may_count():
    net = network("vit_mini", (3, 8, 8))
    given = batches(16, 8, (3, 8, 8))
    credit = lambda batch: list(capture(find_stream(net), batch).gradients)  # noqa: E731
    report = audit(net, given, read="all", credit=credit, credit_local=False)
    assert report.measures["rho"].value > 0.99


@pytest.mark.slow
def test_trained_dfa_with_a_penalty_is_aligned_to_its_own_feedback_and_to_no_other():
    """As on CIFAR-10, where z of the deep Γ is 19 after 30 epochs."""
    spec = RunSpec(method="dfa", penalty=1e-2, epochs=30)
    report = audit_checkpoint(train(spec), load_data(spec))
    assert report.measures["gamma"].value > 0.05
    assert abs(report.measures["gamma_null"].value) < 0.02
    assert report.findings["D6"].value > 5
    assert report.measures["nudge"].value < 0
    assert [report.findings[code].status for code in ADVISORY] == ["pass"] * 5


def test_the_example_on_the_page_about_credit_runs(capsys):
    page = (Path(__file__).parents[2] / "docs" / "credit.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(lines, "credit.md", "exec"), {})
    assert capsys.readouterr().out.endswith("fires pass\n")


def test_the_page_about_credit_names_every_measure(by_dfa):
    page = (Path(__file__).parents[2] / "docs" / "credit.md").read_text(encoding="utf-8")
    known = {"hidden_norm", "gradient_norm", "gain"}
    assert all(f"`{name}`" in page for name in by_dfa.measures if name not in known)
