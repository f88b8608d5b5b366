"""The glossary explains every word and symbol that the page of an audit prints."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter

import pytest
import torch
from docs.generate import glossary as glossary_page

from creditscope.auditing.audit import audit
from creditscope.batch import Batch
from creditscope.diagnostics import diagnostics
from creditscope.errors import UnknownName
from creditscope.glossary import term_named, terms
from creditscope.glossary.explanation import explain, explanation
from creditscope.methods import methods
from creditscope.methods.bound_rule import BoundRule
from creditscope.networks.build import build
from creditscope.protocols import PROTOCOLS
from creditscope.records.report import Report
from creditscope.report.layers import columns
from creditscope.verdict import Reason, Status


@pytest.fixture(scope="module")
def report() -> Report:
    """A real audit with credit, a frozen control and initial weights."""
    network, drawn = build("resmlp", 12, 3, 0, d=16, depth=3), torch.Generator().manual_seed(0)
    batches = [Batch(torch.randn(40, 12, generator=drawn), torch.arange(40) % 3) for _ in range(2)]
    rule = methods["dfa"]()
    credit = BoundRule(rule, network, rule.feedback(network, batches[0], drawn), batches[0])
    before = build("resmlp", 12, 3, 1, d=16, depth=3)
    return audit(network, batches, credit=credit, control_accuracy=0.2, initial=before)


def test_every_measure_of_an_audit_is_explained(report: Report) -> None:
    assert len(report.measures) > 12
    assert [name for name in report.measures if term_named(name) is None] == []


def test_every_column_of_the_page_is_explained(report: Report) -> None:
    assert [column.heading for column in columns(report) if term_named(column.heading) is None] == []


def test_every_symbol_of_the_page_is_explained(report: Report) -> None:
    symbols = {word.strip(",;:.!()") for word in re.findall(r"\S*[^\x00-\x7f]\S*", str(report))}
    symbols = {symbol for symbol in symbols if not re.fullmatch(r"[─▪±λ‖²f()h/ge_L0-9.]*", symbol)}
    assert symbols
    assert [symbol for symbol in symbols if term_named(symbol) is None] == []


@pytest.mark.parametrize("status", Status)
def test_every_status_is_explained(status: Status) -> None:
    assert term_named(status) is not None
    assert explain(status.value.upper())


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_for_a_gap_is_explained(reason: Reason) -> None:
    assert term_named(reason) is not None


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_every_protocol_its_modes_and_its_flags_are_explained(protocol) -> None:
    assert term_named(f"protocol {protocol.name}") == term_named(protocol.name)
    for mode in protocol.modes:
        assert term_named(mode.flag if protocol.words == "flags" else mode.name) is not None


WORDS = """Γ; gamma; ρ; nudge; drift; fires; advisory; gain; clamp; exact layer; deep mean; null; z; frozen control;
ladder; reference model; stream; credit; protocol three; four; april; PASS; FAIL; INCONCLUSIVE; undecided; undefined;
skipped; seed interval; (a); (b); (c); (d); walk-back; λ; decades; pp; guard""".replace("\n", " ").split("; ")


@pytest.mark.parametrize("word", WORDS)
def test_the_words_of_a_page_are_explained(word: str) -> None:
    assert len(explain(word).split()) > 8


def test_spellings_are_unique_and_related_words_exist() -> None:
    spellings = Counter(spelling for term in terms() for spelling in (term.word, *term.aliases))
    assert [spelling for spelling, count in spellings.items() if count > 1] == []
    related = {word for term in terms() for word in term.see}
    assert [word for word in related if term_named(word) is None and word not in diagnostics] == []


def test_a_term_is_one_paragraph_of_whole_sentences() -> None:
    assert [term.word for term in terms() if "\n" in term.meaning or not term.meaning.endswith(".")] == []


def test_capitals_matter_only_where_they_tell_two_words_apart() -> None:
    assert explanation("PASS").lead != explanation("pass").lead
    assert explain("d2") == explain("D2") == explain("reference validity")
    assert explain("GAMMA") == explain("Γ")


def test_methods_networks_and_datasets_are_explained_from_their_facts() -> None:
    assert "a_l = e B_l" in explain("dfa")
    assert "Nøkland (2016)" in explain("dfa")
    assert explain("resmlp").startswith("resmlp  (network)")
    assert explain("mnist1d").startswith("mnist1d  (dataset)")


def test_without_a_word_everything_is_listed() -> None:
    listed = explain()
    assert [name for name in diagnostics if name not in listed] == []
    assert [term.word for term in terms() if term.word not in " ".join(listed.split())] == []


def test_an_unknown_word_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"There is no explanation of 'nugde'\. Did you mean 'nudge'\?"):
        explain("nugde")
    with pytest.raises(UnknownName, match=r"There is no diagnostic called 'D21'\. Did you mean 'D2'\?"):
        explain("D21")


def test_explaining_needs_no_torch_and_no_docstrings() -> None:
    program = (
        "import sys; from creditscope.glossary.explanation import explain;"
        "print(explain('D2'), explain('Γ'), explain()); print(*{'torch', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-OO", "-c", program], capture_output=True, text=True, check=True)
    assert "median over all images of ‖g_L‖ / 128" in done.stdout
    assert done.stdout.splitlines()[-1] == ""


def test_the_glossary_page_is_current() -> None:
    assert glossary_page.PATH.read_text(encoding="utf-8") == glossary_page.page(), "run make docs"


def test_links_inside_the_glossary_page_lead_somewhere() -> None:
    page = glossary_page.page()
    anchors = re.findall(r'<a id="([^"]+)">', page)
    assert len(anchors) == len(set(anchors)) == len(terms())
    assert set(re.findall(r"\]\(#([^)]+)\)", page)) <= set(anchors)
