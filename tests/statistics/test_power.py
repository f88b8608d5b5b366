"""How many seeds decide a margin: the formula agrees with a slow simulation of the intervals themselves."""

from __future__ import annotations

import math
from itertools import product
from statistics import NormalDist, fmean

import numpy as np
import pytest
from scipy.stats import chi2

from creditscope.errors import InvalidInput
from creditscope.statistics.margin import MANY, binomial_variance, margin_of_accuracies, squared_half_width
from creditscope.statistics.power import (
    CERTAIN,
    LIKELY,
    Question,
    _first,
    expected_half_width,
    probability,
    seeds_to_decide,
    seeds_to_settle,
)

DRAWS = 4000


def simulated(question: Question, seeds: int) -> tuple[float, float]:
    """Share of simulated experiments that are decided on the right side, and the mean half-width, with real intervals.

    Accuracies lie around one half, where the images' error is the one that the formula takes.
    """
    rng = np.random.default_rng(seeds)
    images = question.image_variance**0.5
    decided, widths = 0, 0.0
    for _ in range(DRAWS):
        arms = [rng.normal(0, question.sd, seeds), rng.normal(0, question.sd, seeds)]
        shift = question.margin + rng.normal(0, images)
        trained, control = (50 + shift / 2 + arms[0]) / 100, (50 - shift / 2 + arms[1]) / 100
        margin = margin_of_accuracies(trained.tolist(), control.tolist(), images=question.images or 10**12)
        assert margin.interval is not None
        low, high = (100 * end for end in margin.interval)
        decided += low > question.limit if question.margin > question.limit else high < question.limit
        widths += (high - low) / 2
    return decided / DRAWS, widths / DRAWS


@pytest.mark.parametrize(
    ("question", "seeds"),
    [
        (Question(1, 5, images=10_000), 2),
        (Question(1, 5, images=10_000), 3),
        (Question(2, 6, images=None), 5),
        (Question(0.5, -1, images=1000), 4),
        (Question(3, 12, images=1000), 10),
    ],
)
def test_probability_and_width_agree_with_a_slow_simulation(question: Question, seeds: int) -> None:
    decided, width = simulated(question, seeds)
    p = probability(question, seeds)
    assert abs(p - decided) < 0.005 + 4 * math.sqrt(p * (1 - p) / DRAWS)
    assert width == pytest.approx(expected_half_width(question, seeds), rel=0.08)


def test_more_seeds_a_larger_distance_and_more_images_decide_more() -> None:
    question = Question(1, 5, images=1000)
    grown = [probability(question, seeds) for seeds in range(2, 40)]
    assert grown == sorted(grown)
    assert probability(Question(1, 6, images=1000), 5) > probability(question, 5)
    assert probability(Question(1, 5, images=10_000), 5) > probability(question, 5)
    assert probability(Question(0.5, 5, images=1000), 5) > probability(question, 5)


def test_it_is_symmetric_around_the_limit() -> None:
    above, below = Question(1, 5, 2.0, 1000), Question(1, -1, 2.0, 1000)
    assert probability(above, 6) == pytest.approx(probability(below, 6))


@pytest.mark.parametrize("question", [Question(1, 3), Question(1, 5, images=10_000), Question(3, 4), Question(1, 1.9)])
def test_so_many_seeds_decide_it_and_one_fewer_does_not(question: Question) -> None:
    seeds = seeds_to_decide(question)
    if seeds is None:
        assert probability(question, 1000) < LIKELY
    else:
        assert probability(question, seeds) >= LIKELY
        assert seeds == 2 or probability(question, seeds - 1) < LIKELY


def test_answers_compared_image_by_image_need_fewer_seeds() -> None:
    alone, paired = Question(1, 4, images=10_000), Question(1, 4, images=10_000, differing=0.1)
    assert (seeds_to_decide(paired) or 0) < (seeds_to_decide(alone) or 0)


def test_no_number_of_seeds_goes_below_the_error_of_the_images() -> None:
    question = Question(1, 3, images=10_000)
    assert question.narrowest == pytest.approx(100 * 1.96 * math.sqrt(0.5 / 10_000), rel=1e-3)
    assert expected_half_width(question, 1000) >= question.narrowest
    assert seeds_to_decide(question) is None


def test_seeds_without_spread_and_without_images_are_exact() -> None:
    assert probability(Question(0, 3), 2) == 1
    assert seeds_to_decide(Question(0, 3)) == 2


def test_what_is_known_of_two_arms_says_how_many_more_are_needed() -> None:
    trained, control = [0.50, 0.52, 0.54], [0.48, 0.49, 0.50]
    sd = math.sqrt((2**2 + 1**2) / 2)
    assert seeds_to_settle(trained, control, 2.0) == seeds_to_decide(Question(sd, 3.0))
    assert seeds_to_settle(trained, [0.49], 2.0) == seeds_to_decide(Question(2.0, 3.0))


def test_one_seed_says_nothing_about_how_many_more_are_needed() -> None:
    assert seeds_to_settle([0.5], [0.4], 2.0) is None
    assert seeds_to_settle([0.5, math.nan], [0.4], 2.0) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sd": -1, "margin": 3}, "sd = -1"),
        ({"sd": math.nan, "margin": 3}, "not all between -100 and 100"),
        ({"sd": 1, "margin": 2}, "The margin equals the limit, 2 points"),
        ({"sd": 1, "margin": 3, "images": 0}, "images must be at least 1, got 0"),
        ({"sd": 1, "margin": 3, "differing": 20}, "differing must be a share above 0 and at most 1, got 20"),
    ],
)
def test_questions_without_an_answer_are_refused(given: dict, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Question(**given)


def slowly(question: Question, seeds: int) -> tuple[float, float]:
    """Probability and mean half-width by plain loops over 64 quantiles of each arm's χ²."""
    freedom = seeds - 1
    spreads = [question.sd**2 * chi2.ppf((k + 0.5) / 64, freedom) / freedom / seeds for k in range(64)]
    normal, chances, widths = NormalDist(), [], []
    for one, other in product(spreads, spreads):
        scatter = (one**2 + other**2) / freedom
        degrees = (one + other) ** 2 / scatter if scatter else MANY
        images = question.image_variance
        width = math.sqrt(float(squared_half_width(one + other, degrees, images, 0.975)))
        widths.append(max(width, normal.inv_cdf(0.975) * math.sqrt(images)))
        error = math.sqrt(2 * question.sd**2 / seeds + images)
        chances.append(normal.cdf((question.distance - widths[-1]) / error))
    return fmean(chances), fmean(widths)


@pytest.mark.parametrize(
    ("question", "seeds"),
    [(Question(1, 5, images=1000), 2), (Question(2, -3, 1.0), 5), (Question(1, 4, images=500, differing=0.1), 3)],
)
def test_probability_and_width_are_means_over_a_grid_of_quantiles(question: Question, seeds: int) -> None:
    chance, width = slowly(question, seeds)
    assert probability(question, seeds) == pytest.approx(chance, rel=1e-6)
    assert expected_half_width(question, seeds) == pytest.approx(width, rel=1e-6)


@pytest.mark.parametrize("wanted", [2, 3, 4, 5, 31, 64, 65, 999, 1000])
def test_the_first_number_that_holds_is_found(wanted: int) -> None:
    assert repr(_first(lambda seeds: seeds >= wanted)) == str(wanted)
    assert _first(lambda seeds: seeds > 1000) is None
    assert _first(lambda seeds: True) == 2


def test_the_images_error_is_binomial_or_that_of_the_images_that_differ() -> None:
    assert Question(1, 3).image_variance == 0
    assert Question(1, 3).limit == 2.0
    assert Question(1, 3, images=50).image_variance == pytest.approx(100**2 * 2 * binomial_variance(0.5, 50))
    assert Question(1, 3, images=50, differing=0.2).image_variance == pytest.approx(100**2 * 0.2 / 50)
    assert Question(1, -3).distance == 5


def test_where_nothing_varies_the_margin_decides() -> None:
    assert probability(Question(0, 3), 2) == 1
    assert probability(Question(0, 1), 2) == 1
    assert expected_half_width(Question(0, 3), 2) == pytest.approx(0, abs=1e-100)


@pytest.mark.parametrize(
    "given", [{"sd": 0}, {"sd": 100}, {"margin": -100}, {"limit": 100.0}, {"images": 1}, {"images": 9, "differing": 1}]
)
def test_the_ends_of_what_is_allowed_are_allowed(given: dict) -> None:
    Question(**{"sd": 1, "margin": 3, **given})


@pytest.mark.parametrize(
    "given",
    [{"margin": 100.1}, {"limit": math.nan}, {"limit": -100.1}, {"sd": 1e300}, {"differing": 0}, {"differing": 1.01}],
)
def test_what_lies_beyond_is_refused(given: dict) -> None:
    with pytest.raises(InvalidInput):
        Question(**{"sd": 1, "margin": 3, **given})


def test_a_margin_at_the_limit_or_images_without_number_settle_nothing() -> None:
    trained, control = [0.5, 0.75], [0.25, 0.5]
    assert seeds_to_settle(trained, control, 25.0) is None
    expected = seeds_to_decide(Question(100 * math.sqrt(0.03125), 25.0, 2.0, 400))
    assert seeds_to_settle(trained, control, 2.0, 400) == expected
    assert seeds_to_settle(trained, [math.nan, 0.5], 2.0) is None
    assert seeds_to_settle(trained, control, 101.0) is None
    assert seeds_to_decide(Question(1, 5), CERTAIN) > seeds_to_decide(Question(1, 5), LIKELY)
