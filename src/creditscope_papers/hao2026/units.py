"""A finding of ours: the gradient of exploded DFA is small in the units of its states, and not in what it says."""

from __future__ import annotations

from creditscope.papers import quantities as q
from creditscope.papers.archive import RunArchive
from creditscope.papers.claims import Answer, Case, claim, decide
from creditscope.papers.paper import Where
from creditscope.records.run import RunRecord
from creditscope_papers.hao2026.claims import SEEDS

COLLAPSED = 1e-4  # of backprop's gradient
PUBLISHED: Where = {"method": "dfa", "method.index": "input"}


def products(record: RunRecord) -> tuple[float, ...]:
    """‖h_l‖·‖g_l‖ per layer, medians over images: how far the loss moves when a state moves by its own size."""
    states, gradients = q.measured(record, "hidden_norm"), q.measured(record, "gradient_norm")
    if states is None or gradients is None:
        return ()
    return tuple(h * g for h, g in zip(states.per_layer, gradients.per_layer, strict=True))


@claim(
    "The collapse of DFA's gradient is one of units: at the deepest state ‖h‖·‖g‖ is no smaller than backprop's",
    "main_audit",
    holds_if="on 3 seeds after 30 and after 100 epochs ‖g_L‖ is at least 10,000 times smaller than backprop's of the "
    "same seed and length, and ‖h_L‖·‖g_L‖ is not smaller",
)
def collapse_is_of_units(archive: RunArchive) -> Answer:
    """‖g_L‖ is at least 10,000 times smaller than backprop's of the same seed and length, and ‖h_L‖·‖g_L‖ is not."""
    cases = {}
    for source in (archive.as_published, archive):
        backprop = source.select("main_audit", {"method": "bp"})
        by_seed = {backprop.specs[key].seed: (key, record) for key, record in backprop.records.items()}
        runs = source.select("main_audit", PUBLISHED)
        for key, record in runs.records.items():
            if runs.specs[key].seed in by_seed:
                cases[key] = _compared(key, record, *by_seed[runs.specs[key].seed])
    return decide(list(cases.values()), 2 * SEEDS)


def _compared(key: str, record: RunRecord, other: str, backprop: RunRecord) -> Case:
    ours, theirs = products(record), products(backprop)
    title = f"seed {record.spec['seed']}, {len(record.history)} epochs"
    if not ours or not theirs:
        return Case(f"{title}: not measured", None, (key, other))
    fallen = q.DEEPEST_GRADIENT.read(record) / q.DEEPEST_GRADIENT.read(backprop)
    text = (
        f"{title}: ‖g_L‖ is {fallen:.0e} of backprop's, ‖h_L‖·‖g_L‖ {ours[-1]:.3g} against {theirs[-1]:.3g} "
        f"(layer 0: {ours[0]:.3g} against {theirs[0]:.3g})"
    )
    return Case(text, fallen <= COLLAPSED and ours[-1] >= theirs[-1], (key, other))
