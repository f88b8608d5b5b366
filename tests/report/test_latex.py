"""LaTeX that any paper can take in: every sign comes out as itself."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.made_runs import audited, run

from creditscope.report.latex.document import document
from creditscope.report.latex.escaping import MATHS, PLAIN, SPECIAL, escaped
from creditscope.report.views import from_runs

SPECIALS = r"100 % of $x_1^2$ & #3 {a}\b ~ -- | <i> `code` 'q' \"q\" 中文 é ½‖Γ"
needs_latex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed: make system")

PREAMBLE = r"""\documentclass{article}
\usepackage[utf8]{inputenc}
\usepackage[margin=2cm]{geometry}
\usepackage{booktabs}"""


def standalone(fragment: str) -> str:
    return f"{PREAMBLE}\n\\begin{{document}}\n{fragment}\\end{{document}}\n"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a_b^c", r"a\_b\textasciicircum{}c"),
        ("50 % & $", r"50 \% \& \$"),
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("‖h‖", r"$\Vert$h$\Vert$"),
        ("--controls", "-{}-controls"),
        ("σ²", r"$\sigma$$^{2}$"),
        ("é", "é"),
        ("中", "[U+4E2D]"),
        ("two\nlines", "two lines"),
    ],
)
def test_a_sign_comes_out_as_itself(text, written):
    assert escaped(text) == written


@given(st.text())
def test_no_text_can_leave_its_place(text):
    """Without the writings of the tables nothing special is left, and braces and dollars are balanced."""
    rest = escaped(text)
    for writing in sorted((*SPECIAL.values(), *(f"${sign.strip()}$" for sign in MATHS.values())), key=len)[::-1]:
        rest = rest.replace(writing, "")
    rest = rest.replace("{}-", "")
    for writing in PLAIN.values():
        rest = rest.replace(writing, "")
    assert not set(rest) & set("\\{}$&#%_^~")


def test_the_tables_hold_every_diagnostic_and_the_form_every_line():
    text = audited().to_latex()
    for code in ("D0", "D1", "D2", "D3", "D4*"):
        assert f"{code} & " in text
    for head in ("Method", "Terminal LayerNorm", "Seeds", "Feedback", "Accuracy", "Frozen control", "Flags"):
        assert f"\\textbf{{{head}}} & " in text
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 5
    assert r"\caption{dfa on mnist1d, seed 42: FAIL(D1+D2+D3)." in text


def test_a_collapsed_alignment_stands_in_brackets():
    assert "(0.420)" in audited().to_latex()
    assert "(0.420)" not in audited(healthy=True).to_latex()


@needs_latex
def test_pdflatex_sets_it_whatever_the_names_and_notes_are(tmp_path):
    record = run("<script>alert(1)</script>", notes=SPECIALS)
    (shown,) = from_runs([record])
    (tmp_path / "report.tex").write_text(standalone(document(shown)), encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "report.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        errors="replace",
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "report.pdf").stat().st_size > 10_000


@needs_latex
def test_every_sign_of_the_tables_can_be_set(tmp_path):
    signs = " ".join(escaped(sign) for sign in (*SPECIAL, *MATHS, *PLAIN))
    (tmp_path / "signs.tex").write_text(standalone(signs + "\n"), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "signs.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
