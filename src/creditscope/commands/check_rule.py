"""The command `check-rule`."""

from __future__ import annotations

from typing import Annotated

import typer

from creditscope.commands import Plugins, command, parsing, say, width

CONFORMS, FAILS = 0, 1


@command("check-rule")
def check_rule(
    rule: Annotated[str, typer.Argument(metavar="NAME|MODULE:CLASS", help="A registered method, or your own class.")],
    network: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Check on this network; default: resmlp, or one the rule supports."),
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the rule. Repeatable.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plugin: Plugins = None,
) -> int:
    """Check that a credit rule keeps its contract: purity, saved state, locality, labels, precision and more.

    Exit codes: 0 it conforms, 1 a clause fails, 2 invalid input.

    Example: `creditscope check-rule mypackage.rules:MyRule`
    """
    options = parsing.pairs(option, "--option", "normalisation=none")
    from creditscope.conformance.check import check_rule as check
    from creditscope.conformance.check import rule_of
    from creditscope.conformance.table import conformance_table
    from creditscope.plugins import named_object

    checked = check(rule_of(named_object(rule) if ":" in rule else rule, options), network=network)
    say(checked.to_json() if json else conformance_table(checked, width()))
    return CONFORMS if checked.conforms else FAILS
