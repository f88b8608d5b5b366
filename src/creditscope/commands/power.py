"""The command `power`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from creditscope.commands import command, say, width

if TYPE_CHECKING:
    from creditscope.statistics.power import Question

SEEDS = range(2, 21)  # the rows of the table


@command("power")
def power(
    sd: Annotated[
        float, typer.Option("--sd", metavar="POINTS", help="Standard deviation between seeds, in each arm.", min=0)
    ],
    margin: Annotated[float, typer.Option(metavar="POINTS", help="The expected margin over the frozen control.")],
    images: Annotated[int, typer.Option(metavar="N", help="Test images behind each accuracy.", min=1)] = 10_000,
    limit: Annotated[float, typer.Option(metavar="POINTS", help="The limit of D3.")] = 2.0,
    differing: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Share of test images that only one of the two networks gets right, if their answers are compared "
            "image by image; default: accuracies alone.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Show how many seeds decide D3: train as many of the method, and as many frozen controls.

    Example: `creditscope power --sd 1 --margin 3`
    """
    from textwrap import fill

    from creditscope.statistics.power import Question, expected_half_width, probability

    question = Question(sd, margin, limit, images, differing)
    paired = "" if differing is None else f", of which {100 * differing:g} % tell the two networks apart"
    setting = f"D3 at a margin of {margin:g} points, limit {limit:g}, standard deviation {sd:g} between seeds"
    say(fill(f"{setting}, {images:,} test images{paired}.", width()))
    say("\nseeds per arm   interval to expect   decided with")
    for seeds in SEEDS:
        half = f"{margin:g} ± {expected_half_width(question, seeds):.1f} points"
        say(f"{seeds:>13}   {half:<18}   {100 * probability(question, seeds):>10.0f} %")
    say("\n" + fill(_conclusion(question), width()))
    return 0


def _conclusion(question: Question) -> str:
    """How many seeds decide it with 80 and with 95 %, or why none do."""
    from creditscope.statistics.power import CERTAIN, LIKELY, MOST_SEEDS, seeds_to_decide

    counts = {chance: seeds_to_decide(question, chance) for chance in (LIKELY, CERTAIN)}
    parts = [f"{count} seeds per arm decide it with {100 * chance:.0f} %" for chance, count in counts.items() if count]
    if None in counts.values():
        chance = CERTAIN if parts else LIKELY
        parts.append(f"{MOST_SEEDS:,} seeds per arm do not decide it with {100 * chance:.0f} %")
    text = ", ".join(parts)
    if question.narrowest >= question.distance:
        text += f": over {question.images:,} test images no interval is narrower than ± {question.narrowest:.1f} points"
        text += "" if question.differing else ". Compare the answers image by image (--differing), or use more images"
    return f"{text}."
