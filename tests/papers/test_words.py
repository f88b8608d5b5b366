"""Numbers are written as people read them."""

from __future__ import annotations

import math

import pytest
from tests.papers.made import figure, line

from creditscope.papers.words import counted, difference, number, ours, theirs


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (0.3061, "share", "30.6 %"),
        (-0.0251, "cosine", "-0.025"),
        (4.98e-05, "cosine", "5e-05"),
        (0.0, "cosine", "0"),
        (4e8, "scale", "4e+08"),
        (203.4, "scale", "203"),
        (1e-9, "scale", "1e-09"),
        (22.4, "points", "+22.4"),
        (8.0, "count", "8"),
        (math.inf, "epoch", "not fired"),
        (math.inf, "scale", "infinite"),
        (math.nan, "share", "undefined"),
    ],
)
def test_a_number_of_a_kind(value, kind, text):
    assert number(value, kind) == text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"values": (0.3,)}, "30.0 %"),
        ({"values": (0.29, 0.30, 0.31)}, "30.0 % ± 1.0 (3 seeds)"),
        ({"values": (0.1, 0.2), "kind": "cosine"}, "+0.150 ± 0.071 (2 seeds)"),
        ({"values": (-0.0014, -0.0013, -0.0014), "kind": "size"}, "-0.001367 ± 0.000058 (3 seeds)"),
        ({"values": (4e-8, 6e-8), "kind": "size"}, "5e-08 ± 1.4e-08 (2 seeds)"),
        ({"values": (0.4021, 0.4022)}, "40.22 % ± 0.01 (2 seeds)"),
        ({"values": (1.0, 1.0), "kind": "cosine"}, "+1.000 ± 0 (2 seeds)"),
        ({"values": (1e6, 1e8), "kind": "scale"}, "1e+07 (1e+06 to 1e+08)"),
        ({"values": (0.0, 2.0), "kind": "scale"}, "1 ± 1.41 (2 seeds)"),
        ({"values": (8.0, math.inf, 9.0), "kind": "epoch"}, "8, not fired, 9"),
        ({"values": (8.0, 11.0), "kind": "count"}, "8, 11"),
        ({"values": (math.nan, 0.3)}, "undefined, 30.0 %"),
        ({"texts": ("none", "none"), "kind": "flags"}, "none"),
        ({"texts": ("none", "(a)"), "kind": "flags"}, "none, (a)"),
        ({"values": (3.0,), "texts": ("dfa, ep",), "kind": "count"}, "3: dfa, ep"),
        ({}, "-"),
    ],
)
def test_our_numbers(fields, text):
    assert ours(line(**fields)) == text


@pytest.mark.parametrize(
    ("shown", "kind", "text"),
    [
        (None, "share", "-"),
        (figure(mean=0.3, std=0.008), "share", "30 % ± 0.8"),
        (figure(mean=0.33), "cosine", "+0.33"),
        (figure(low=3e3, high=8e3), "scale", "3000 to 8000"),
        (figure(high=4e-9), "scale", "at most 4e-09"),
        (figure(mean=1.4e-6, images=1024), "scale", "1.1e-05 (1.4e-06 at N = 1,024)"),
        (figure(values=(8, 11, 8)), "count", "8, 11, 8"),
        (figure(never=True), "epoch", "never"),
        (figure(flags=("(a)", "(b)")), "flags", "(a) (b)"),
        (figure(flags=()), "flags", "none"),
        (figure(), "share", "-"),
    ],
)
def test_a_published_figure(shown, kind, text):
    assert theirs(shown, kind) == text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"difference": -0.034, "errors": -7.26}, "-3.4 pp, -7.3 s.e."),
        ({"difference": 0.5, "kind": "scale"}, "+0.50 decades"),
        ({"difference": -2.0, "kind": "count"}, "-2"),
        ({"difference": math.inf}, ""),
        ({}, ""),
    ],
)
def test_a_difference_in_its_unit_and_in_standard_errors(fields, text):
    assert difference(line(**fields)) == text


def test_outcomes_are_counted_in_their_order():
    found = tuple(line(outcome=outcome) for outcome in ("not run", "agrees", "differs", "agrees"))
    assert counted(found) == "agrees: 2, differs: 1, not run: 1"
