"""Writes the table of rules on docs/lint.md from the registry of the linter."""

from __future__ import annotations

from pathlib import Path

from creditscope.files import write_text
from creditscope.linting.rules import lint_rules

PATH = Path(__file__).resolve().parents[1] / "lint.md"
BEGIN, END = "<!-- rules: make docs writes this part -->\n", "<!-- end of the rules -->"


def rules() -> str:
    """The table of all rules, then what each finds, why it matters and what to write."""
    rows = [f"| {rule.code} | {rule.title} | [pitfall](pitfalls/{rule.page}) |" for rule in lint_rules.values()]
    parts = ["\n".join(("| code | finds | explained |", "|---|---|---|", *rows))]
    for rule in lint_rules.values():
        parts += [f"### {rule.code}", f"{rule.why} Fix: {rule.fix}.", f"```python\n{rule.wrong}```", "Right:"]
        parts += [f"```python\n{rule.right}```"]
    return "\n\n".join(parts) + "\n"


def page() -> str:
    """The page with the rules that the code has now."""
    before, _, rest = PATH.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{rules()}{END}{after}"


if __name__ == "__main__":
    print(write_text(PATH, page()))
