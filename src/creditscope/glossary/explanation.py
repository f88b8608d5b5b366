"""Explanations of diagnostics, words on a page, lint rules, and registered methods, networks and datasets."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from creditscope.diagnostics import CODE, Diagnostic, diagnostics
from creditscope.errors import UnknownName
from creditscope.glossary import Term, by_group, term_named, terms
from creditscope.linting.rules import LintRule, lint_rules
from creditscope.options import options_of
from creditscope.protocols import PROTOCOLS, AuditProtocol
from creditscope.registry import did_you_mean

if TYPE_CHECKING:
    from creditscope.methods.rule import CreditRule

UNITS = {"decades": "", "points": " percentage points", "absolute": ""}


@dataclass(frozen=True, slots=True)
class Explanation:
    """A heading, a first sentence or paragraph, and sections by their headings."""

    heading: str
    lead: str
    sections: Mapping[str, str]

    def text(self, columns: int = 80, bold: Callable[[str], str] = str) -> str:
        """The explanation for a terminal of this width."""
        lines = [bold(self.heading), *textwrap.wrap(self.lead, columns, break_on_hyphens=False)]
        for heading, text in self.sections.items():
            lines += ["", bold(heading)]
            for line in text.splitlines():
                lead = "  " + " " * (len(line) - len(line.lstrip()))
                lines += textwrap.wrap(
                    line, columns, initial_indent="  ", subsequent_indent=lead, break_on_hyphens=False
                ) or [""]
        return "\n".join(lines)


def explain(word: str = "") -> str:
    """Explain a diagnostic, a word or symbol of a page, a lint rule, a method and so on; without a word, list them all.

    >>> import creditscope
    >>> print(creditscope.explain("Γ").splitlines()[0])
    Γ  (also: gamma, alignment)
    """
    if not isinstance(word, str):
        raise UnknownName(f"A {type(word).__name__} cannot be explained.\nPass a word, for example 'D2'.")
    return explanation(word).text() if word else listing()


def explanation(word: str) -> Explanation:
    """What there is to say about a word; torch is imported only for names of methods, networks and datasets."""
    named = {entry.name.casefold(): entry for entry in diagnostics.values()}
    if word.casefold() in named:
        return of_diagnostic(named[word.casefold()])
    if word.upper() in lint_rules:
        return of_lint_rule(lint_rules[word.upper()])
    term = term_named(word)
    if term is not None:
        return of_term(term)
    titled = {entry.title.casefold(): entry for entry in diagnostics.values()}
    if word.casefold() in titled:
        return of_diagnostic(titled[word.casefold()])
    if CODE.fullmatch(word.upper()):
        return (
            of_lint_rule(lint_rules[word])
            if _letters(word) in map(_letters, lint_rules)
            else of_diagnostic(diagnostics[word])
        )
    return _of_entry(word)


def _letters(code: str) -> str:
    return code.upper().rstrip("0123456789")


def of_diagnostic(entry: Diagnostic) -> Explanation:
    """Question, formula, limit, meaning, remedy and role of a diagnostic."""
    limit = entry.limit
    return Explanation(
        f"{entry.name}  {entry.title}",
        capitalised(entry.question),
        {
            "Formula": entry.formula,
            "Raised if": f"The value is {limit.fires} {limit.text}{UNITS[limit.unit]}.",
            "Why there": capitalised(limit.because).rstrip(".") + ".",
            "Means": entry.means,
            "Does not mean": entry.does_not_mean,
            "Do": entry.advice,
            "Counts in": "\n".join(roles(entry)),
        },
    )


def of_term(term: Term) -> Explanation:
    """Meaning, formula and related words of an entry of the glossary."""
    also = f"  (also: {', '.join(term.aliases)})" if term.aliases else ""
    sections = {"Formula": term.formula, "See also": ", ".join(term.see)}
    return Explanation(term.word + also, term.meaning, {name: text for name, text in sections.items() if text})


def of_lint_rule(rule: LintRule) -> Explanation:
    """Message, reason, fix, example and page of a rule of the linter."""
    return Explanation(
        f"{rule.code}  {rule.title}",
        f"{rule.message}.",
        {
            "Why": rule.why,
            "Fix": f"{rule.fix}.",
            "Wrong": rule.wrong.rstrip(),
            "Right": rule.right.rstrip(),
            "See": rule.link,
            "Silence": f"# noqa: {rule.code} at the end of the line",
        },
    )


def roles(entry: Diagnostic) -> Iterator[str]:
    """The part that a diagnostic has in every protocol, one line each."""
    using = [protocol for protocol in PROTOCOLS.values() if _key_in(protocol, entry)]
    if not using:
        yield f"every protocol: in place of {entry.code}, where an audit cannot use that"
    for protocol in using:
        parts = list(_parts(protocol, _key_in(protocol, entry)))
        missing = "measured without a limit" if entry.code in protocol.unjudged else "advisory"
        for part in parts or [f"{missing}, cannot fail a network"]:
            yield f"protocol {protocol.name}: {part}"


def _key_in(protocol: AuditProtocol, entry: Diagnostic) -> str:
    """The name under which a protocol measures a diagnostic; empty if it uses another form of it."""
    if entry.name in protocol.beside:
        return entry.name
    return entry.code if protocol.variants.get(entry.code, "") == entry.variant else ""


def _parts(protocol: AuditProtocol, key: str) -> Iterator[str]:
    """The failure modes that a diagnostic counts in, with what else each of them asks for."""
    for mode in protocol.modes:
        if key in mode.requires:
            others = " and ".join(code for code in protocol.codes if code in mode.requires and code != key)
            cause, excused = mode.requires[key], mode.excused.get(key)
            together = f", together with {others}" if others else ""
            only = f", if its cause is `{cause}`" if cause else f", unless its cause is `{excused}`" if excused else ""
            yield f"{mode.name}{together}{only}"
        elif mode.instead is not None and key in mode.instead.requires:
            yield f"{mode.instead.name}, where {' and '.join(mode.requires)} lacks its control"


def _of_entry(word: str) -> Explanation:
    from creditscope.datasets import datasets
    from creditscope.methods import methods
    from creditscope.networks import networks

    if word in methods:
        return of_method(methods[word])
    for kind, registry in (("network", networks), ("dataset", datasets)):
        if word in registry:
            return Explanation(f"{word}  ({kind})", registry[word].summary, {})
    known = [*diagnostics, *lint_rules, *(term.word for term in terms()), *methods, *networks, *datasets]
    hint = did_you_mean(word, known)
    raise UnknownName(f"There is no explanation of {word!r}.{hint}\n`creditscope explain` lists every word.")


def of_method(rule: type[CreditRule]) -> Explanation:
    """Formula, feedback, reference, networks, what is proved, when it fails, options and paper of a rule."""
    facts = rule.facts
    declared = {} if facts is None else {"Formula": facts.formula, "Feedback": facts.feedback}
    options = ", ".join(f"{name} = {value}" for name, value in options_of("method", rule).items())
    sections = {
        **declared,
        "Compared with": (facts.reference if facts is not None else "") or "the gradient of backprop",
        "Networks": ", ".join(rule.networks) if rule.networks is not None else "all",
        "What a test proves": "\n".join(rule.identities),
        "When it fails": rule.fails,
        "Options": options,
        "Paper": "" if facts is None else facts.paper,
    }
    known = {heading: text for heading, text in sections.items() if text}
    return Explanation(f"{rule.name}  (method)", rule.summary, known)


def listing(columns: int = 80) -> str:
    """Every word that can be explained, by group."""
    lines = ["Diagnostics", *(f"  {name.ljust(12)}{entry.title}" for name, entry in diagnostics.items())]
    lines += ["", "Lint rules", *(f"  {code.ljust(12)}{rule.title}" for code, rule in lint_rules.items())]
    for group, entries in by_group().items():
        words = ", ".join(term.word for term in entries)
        lines += ["", group, *textwrap.wrap(words, columns, initial_indent="  ", subsequent_indent="  ")]
    return "\n".join([*lines, "", "Methods, networks and datasets: see `creditscope list`."])


def capitalised(text: str) -> str:
    """The text with a capital first letter and everything else unchanged."""
    return text[:1].upper() + text[1:]
