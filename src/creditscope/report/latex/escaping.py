"""Text escaped for LaTeX."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise

SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"{\char34}",
    "`": r"\`{}",
}
MATHS = {
    "‖": r"\Vert ", "Γ": r"\Gamma ", "Δ": r"\Delta ", "Σ": r"\Sigma ", "Π": r"\Pi ", "Ω": r"\Omega ", "Θ": r"\Theta ",
    "Λ": r"\Lambda ", "Φ": r"\Phi ", "Ψ": r"\Psi ", "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "δ": r"\delta ",
    "ε": r"\varepsilon ", "ζ": r"\zeta ", "η": r"\eta ", "θ": r"\theta ", "κ": r"\kappa ", "λ": r"\lambda ",
    "μ": r"\mu ", "ν": r"\nu ", "ξ": r"\xi ", "π": r"\pi ", "ρ": r"\rho ", "σ": r"\sigma ", "τ": r"\tau ",
    "φ": r"\varphi ", "χ": r"\chi ", "ψ": r"\psi ", "ω": r"\omega ", "ℓ": r"\ell ", "∂": r"\partial ", "∇": r"\nabla ",
    "⟨": r"\langle ", "⟩": r"\rangle ", "√": r"\surd ", "∞": r"\infty ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ",
    "≈": r"\approx ", "→": r"\to ", "←": r"\leftarrow ", "±": r"\pm ", "·": r"\cdot ", "×": r"\times ", "−": "-",
    "½": r"\frac{1}{2}", "¹": "^{1}", "²": "^{2}", "³": "^{3}", "⁺": "^{+}", "⁻": "^{-}", "ᵀ": r"^{\top}", "₂": "_{2}",
    "₁": "_{1}", "₀": "_{0}", "∈": r"\in ", "…": r"\ldots ", "µ": r"\mu ",
}  # fmt: skip
PLAIN = {"–": "--", "—": "---", "‘": "`", "’": "'", "“": "``", "”": "''", "\u00a0": "~", "✓": "yes", "✗": "no"}
LATIN = re.compile(r"[\u00c0-\u017f]")  # letters with accents


@lru_cache(maxsize=4096)  # the pages of a study repeat most of their texts
def escaped(text: str) -> str:
    """Text as LaTeX: specials written out, mathematics as such, what no font has as its code point."""
    joined = " ".join(text.split())
    return "".join(_sign(sign, before) for before, sign in pairwise(f" {joined}"))


def _sign(sign: str, before: str) -> str:
    if sign == before == "-":
        return "{}-"  # two hyphens are not a dash
    for table in (SPECIAL, PLAIN):
        if sign in table:
            return table[sign]
    if sign in MATHS:
        return f"${MATHS[sign].strip()}$"
    return sign if (sign.isascii() and sign.isprintable()) or LATIN.match(sign) else _rest(sign)


def _rest(sign: str) -> str:
    """A relative of the sign that can be set, else its code point: nothing vanishes."""
    if unicodedata.combining(sign):
        return ""
    plain = unicodedata.normalize("NFKD", sign).encode("ascii", "ignore").decode()
    return escaped(plain) if plain.strip() and plain.isprintable() else f"[U+{ord(sign):04X}]"
