"""Writes one page per diagnostic, from the same words that `creditscope explain` prints."""

from __future__ import annotations

from pathlib import Path

from creditscope.diagnostics import Diagnostic, diagnostics
from creditscope.files import write_text
from creditscope.glossary.explanation import UNITS, capitalised, of_diagnostic
from creditscope.protocols import DEFAULT, PROTOCOLS

FOLDER = Path(__file__).resolve().parents[1] / "diagnostics"
README = FOLDER.parents[1] / "README.md"
BEGIN, END = "<!-- diagnostics: make docs writes this table -->\n", "<!-- end of the diagnostics -->"


def pages() -> dict[str, str]:
    """Every page by its file name."""
    plain = [entry for entry in diagnostics.values() if not entry.variant]
    return {"index.md": index(plain)} | {f"{entry.code}.md": page(entry) for entry in plain}


def index(entries: list[Diagnostic]) -> str:
    """The table of all diagnostics."""
    rows = [
        f"| [{entry.code}]({entry.code}.md) | {entry.title} | {capitalised(entry.question)} | "
        f"{entry.limit.fires} {entry.limit.text} |"
        for entry in entries
    ]
    return "\n".join(
        (
            "# Diagnostics",
            "",
            "Each is a question that one number answers. The pages are written by `make docs` from the code;",
            "`creditscope explain CODE` prints the same. For other words see the [glossary](../glossary.md).",
            "",
            "| code | name | question | raised if the value is |",
            "|---|---|---|---|",
            *rows,
            "",
            "A finding has one of six statuses: `pass`, `fires`, `undecided` (its interval straddles the limit),",
            "`undefined` (NaN, 0/0), `skipped` (the evidence is missing) and `measured` (the protocol sets no limit).",
            "Only `pass` rules a failure mode out.",
            "",
            "```{toctree}",
            ":hidden:",
            "",
            *(entry.code for entry in entries),
            "```",
            "",
        )
    )


def readme() -> str:
    """The README with the table of the diagnostics that the code has now."""
    before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = [
        f"| [{entry.code}](docs/diagnostics/{entry.code}.md) | {capitalised(entry.question)} | "
        f"{'>' if entry.limit.fires == 'above' else '<'} {entry.limit.at:.3g}{UNITS[entry.limit.unit]} | "
        f"{_role(entry)} |"
        for entry in diagnostics.values()
        if not entry.variant
    ]
    table = "\n".join(("| | question | fires at | protocol `strict` |", "|---|---|---|---|", *rows))
    return f"{before}{BEGIN}{table}\n{END}{after}"


def _role(entry: Diagnostic) -> str:
    """What a diagnostic, or its companion, counts for in the default protocol."""
    protocol = PROTOCOLS[DEFAULT]
    replacing = {code: mode for mode in protocol.modes if mode.instead for code in mode.instead.requires}
    if entry.code in protocol.unjudged:
        return "measured"
    if entry.code in replacing:
        return f"can fail a network without {', '.join(replacing[entry.code].requires)}"
    asked = [{code.partition(":")[0] for code in mode.requires} for mode in protocol.modes]
    if modes := [codes for codes in asked if entry.code in codes]:
        others = sorted(set().union(*modes) - {entry.code}) if all(len(codes) > 1 for codes in modes) else []
        return "can fail a network" + (f" together with {', '.join(others)}" if others else "")
    return "a warning" if entry.warns else "advisory"


def page(entry: Diagnostic) -> str:
    """The page of one diagnostic, with the other forms of the same question below it."""
    variants = [other for other in diagnostics.values() if other.code == entry.code and other.variant]
    parts = [f"# {entry.code}: {entry.title}", capitalised(entry.question), *_body(entry, "##")]
    for other in variants:
        parts += [f"## Another form, `{other.name}`: {other.title}", capitalised(other.question), *_body(other, "###")]
    return "\n\n".join(parts) + "\n"


def _body(entry: Diagnostic, level: str) -> list[str]:
    parts = []
    for heading, text in of_diagnostic(entry).sections.items():
        if heading == "Formula":
            lead, _, formula = text.partition("\n")
            text = f"{lead}\n\n```text\n{formula.strip()}\n```"
        elif heading == "Counts in":
            text = "\n".join(f"- {line}" for line in text.splitlines())
        else:
            text = capitalised(text)
        parts += [f"{level} {heading}", text]
    return parts


if __name__ == "__main__":
    for name, text in pages().items():
        print(write_text(FOLDER / name, text))
    print(write_text(README, readme()))
