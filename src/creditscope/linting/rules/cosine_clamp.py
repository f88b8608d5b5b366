"""CS002: cosine_similarity on gradients with its default eps."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from creditscope.linting.cosines import cosines
from creditscope.linting.gradients import Gradients
from creditscope.linting.rules import lint_rule
from creditscope.linting.source import SourceFile


@lint_rule(
    "CS002",
    title="`cosine_similarity` on gradients without `eps=`",
    message="cosine_similarity of gradients with the default eps=1e-8",
    why="Norms below eps are replaced by eps. The gradients of a deep or exploded network are that small, and the "
    "cosine then measures their size, not their direction.",
    fix="divide each vector by its largest entry and take the cosine in float64, or pass an eps= far below the "
    "smallest norm, such as eps=1e-30",
    page="2-the-eps-clamp.md",
    wrong="import torch.nn.functional as F\n\ngamma = F.cosine_similarity(credit, gradient)\n",
    right="import torch.nn.functional as F\n\n"
    "gamma = F.cosine_similarity(credit.double(), gradient.double(), eps=1e-30)\n",
)
def cosine_clamp(source: SourceFile) -> Iterator[ast.expr]:
    """Cosines in which at least one vector is a gradient and eps is not given."""
    for cosine, scope in cosines(source):
        if cosine.eps_given or not cosine.vectors:
            continue
        gradients = Gradients(source, scope)
        if any(map(gradients.is_gradient, cosine.vectors)):
            yield cosine.call
