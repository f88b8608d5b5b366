"""The reporting form states facts of the records, and says so where a record does not hold one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.report.made import report
from tests.report.made_runs import run
from tests.report.real import tiny_view

from creditscope.plugins import load_plugin
from creditscope.records.run import RunRecord
from creditscope.report.form.reporting_form import form
from creditscope.report.form.setting import OLD, UNDECLARED, UNKNOWN
from creditscope.report.views import AuditView, from_report, from_runs, gather
from creditscope.runs.run import train
from creditscope.runs.spec import RunSpec

PLUGIN = """
from dataclasses import dataclass
from creditscope.methods import method
from creditscope.methods.dfa import DirectFeedback

@method("loud_dfa", summary="DFA, twice as loud.", formula="a_l = 2 e B_l", feedback="B_l ~ N(0, 4)", paper="Us (2026)")
@dataclass(frozen=True)
class LoudFeedback(DirectFeedback):
    volume: float = 2.0
"""


def lines(view: AuditView) -> dict[str, str]:
    found = dict(form(view).lines)
    assert all(found.values())
    return found


def trained(method: str, **options: object) -> AuditView:
    spec = RunSpec(network_options={"d": 16, "depth": 2}, method=method, epochs=1, seed=7, **options)
    (view,) = from_runs([train(spec).record])
    return view


def test_the_form_of_a_real_run_states_method_feedback_network_and_results():
    found = lines(tiny_view())
    assert found["Method"] == "dfa(index=output, normalisation=sample)"
    assert found["Credit"].startswith("a_l = e B_l")
    assert found["Feedback"].startswith("B_l (classes × ")
    assert found["Feedback"].endswith("drawn once; seed 1")
    assert found["Source of the method"].startswith("Nøkland (2016)")
    assert found["Architecture"].startswith("resmlp(d=16, depth=2")
    assert found["Terminal LayerNorm"] == "yes"
    assert found["Dataset"].startswith("mnist1d")
    assert found["Seeds"] == "1"
    assert (
        found["Recipe"]
        == "AdamW, 2 epochs, batch 128, learning rate 0.001, decay 0.01, augmentation as the dataset defines it"
    )
    assert found["Measured on"] == "1,000 images in 8 batches, float32 on cpu"
    assert found["Γ per layer"].count(" ") > 3
    assert found["D1 scale stability"].startswith("1.03, fires > 50: pass; per block 0.989 1.03")
    assert found["Verdict"].startswith(f"{tiny_view().verdict} under protocol strict")


def test_credit_bridge_states_no_random_feedback_and_all_its_options():
    found = lines(trained("credit_bridge"))
    assert found["Feedback"] == "none that is drawn at random"
    assert found["Credit"].startswith("a_l = ∇_h V(h_l, l/L, e)")
    assert "normalisation=sample" in found["Method"]


def test_feedback_alignment_states_its_formula_and_its_law_apart():
    found = lines(trained("fa"))
    assert found["Credit"].startswith("a_L = g_L through the read-out;  a_l = a_{l+1} B_l")
    assert found["Feedback"] == ("B_l (features of h_{l+1} × features of h_l) ~ N(0, 1)/√rows, drawn once; seed 7")


@pytest.mark.parametrize("method", ["state_bridge", "credit_bridge"])
def test_every_option_of_a_bridge_is_in_the_form(method):
    from creditscope.methods import methods
    from creditscope.options import options_of

    for option in options_of("method", methods[method]):
        assert f"{option}=" in lines(trained(method))["Method"]


def test_a_method_of_a_plugin_has_a_full_form(tmp_path, monkeypatch):
    from creditscope.methods import methods

    monkeypatch.setattr(methods, "_entries", {name: methods[name] for name in methods})  # undone afterwards
    monkeypatch.chdir(tmp_path)
    Path("loud_plugin.py").write_text(PLUGIN)
    load_plugin("loud_plugin")
    found = lines(trained("loud_dfa", plugins=("loud_plugin",)))
    assert found["Method"] == "loud_dfa(index=output, normalisation=sample, volume=2)"
    assert found["Credit"] == "a_l = 2 e B_l. DFA, twice as loud."
    assert found["Feedback"] == "B_l ~ N(0, 4); seed 7"
    assert found["Source of the method"] == "Us (2026)"


def test_a_record_of_schema_version_1_says_plainly_what_it_does_not_hold():
    (old,) = from_runs([run("dfa", 7)])
    found = lines(old)
    assert found["Method"] == "dfa; options left at their defaults are not in this record"
    assert found["Credit"] == found["Feedback"] == found["Terminal LayerNorm"] == OLD
    assert found["Architecture"].startswith("resmlp(depth=2); options left at their defaults")
    assert found["Seeds"] == "7"


@pytest.mark.parametrize("path", sorted(Path("results/records").rglob("*.json"))[::40], ids=lambda path: path.stem)
def test_a_committed_record_has_a_form_that_invents_nothing(path):
    (view,) = gather(path)
    if view.run is not None and not view.run.resolved:
        assert lines(view)["Feedback"] == OLD


def test_the_form_states_control_penalty_random_labels_and_augmentation():
    found = lines(trained("bp", control="frozen", penalty=0.01, random_labels=True, augment=False))
    assert found["Method"] == "bp + penalty 0.01, frozen"
    assert found["Control"] == "frozen"
    assert found["Dataset"].endswith(" with random labels")
    assert found["Recipe"].endswith(", no augmentation")
    assert lines(trained("bp"))["Control"] == "none"


def test_a_rule_that_is_not_registered_is_called_so():
    record = tiny_view().run
    assert record is not None
    bare = RunRecord.model_validate(record.model_dump() | {"method": None})
    found = lines(from_runs([bare])[0])
    assert found["Credit"] == found["Feedback"] == UNDECLARED


def test_an_audit_without_a_run_says_what_is_not_recorded():
    found = lines(from_report(report()))
    assert found["Method"] == found["Dataset"] == found["Feedback"] == UNKNOWN
    assert found["Accuracy"] == "74.0 ± 1.0 % over 3 seeds, 95 % t-interval 71.5 to 76.5 %"
    assert found["Γ per layer"] == "no credit signal was examined"
