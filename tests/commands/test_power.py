"""`creditscope power`: how many seeds decide D3."""

from __future__ import annotations

import re

from creditscope.cli import BAD_INPUT, run
from creditscope.statistics.power import CERTAIN, LIKELY, Question, probability, seeds_to_decide


def test_the_table_and_the_conclusion_are_those_of_the_functions(capsys):
    assert run(["power", "--sd", "1", "--margin", "5", "--images", "1000"]) == 0
    page = capsys.readouterr().out
    question = Question(1, 5, images=1000)
    rows = re.findall(r"^ +(\d+) +5 ± [\d.]+ points +(\d+) %$", page, re.MULTILINE)
    assert [int(seeds) for seeds, _ in rows] == list(range(2, 21))
    assert all(int(chance) == round(100 * probability(question, int(seeds))) for seeds, chance in rows)


def test_it_says_how_many_seeds_decide_it_with_80_and_95_percent(capsys):
    assert run(["power", "--sd", "1", "--margin", "5"]) == 0
    question = Question(1, 5, images=10_000)
    few, many = seeds_to_decide(question, LIKELY), seeds_to_decide(question, CERTAIN)
    wanted = f"{few} seeds per arm decide it with 80 %, {many} seeds per arm decide it with 95 %."
    assert wanted in " ".join(capsys.readouterr().out.split())


def test_it_says_where_the_test_images_are_too_few_for_any_number_of_seeds(capsys):
    assert run(["power", "--sd", "1", "--margin", "3"]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "1,000 seeds per arm do not decide it with 80 %: over 10,000 test images no interval is narrower" in page
    assert run(["power", "--sd", "1", "--margin", "3", "--differing", "0.05"]) == 0
    assert "seeds per arm decide it with 80 %" in " ".join(capsys.readouterr().out.split())


def test_a_margin_at_the_limit_is_refused(capsys):
    assert run(["power", "--sd", "1", "--margin", "2"]) == BAD_INPUT
    assert "The margin equals the limit" in capsys.readouterr().err
