"""The experiments in order, most of them as one table of data: rows by settings, and the quantities of each."""

from __future__ import annotations

import math

from creditscope.batch import PUBLISHED_BATCH
from creditscope.options import Option
from creditscope.papers import quantities as q
from creditscope.papers.paper import Experiment, RunGroup
from creditscope.papers.quantities import ACCURACY, DEEPEST_GRADIENT, DEEPEST_STATE, GROWTH, Flags, Quantity, at_epoch
from creditscope.records.run import RunRecord
from creditscope_papers.hao2026.ladder import ladder
from creditscope_papers.hao2026.logs import partial_audit
from creditscope_papers.hao2026.profiles import LONG, SHORT, last_valid_row
from creditscope_papers.hao2026.readings import RULE, SECOND, readings_table
from creditscope_papers.hao2026.reporting import METHODS, decision_utility, decisions
from creditscope_papers.hao2026.thresholds import threshold_sensitivity

Settings = dict[str, Option]
LARGER = 1024  # the batch of the published gradient norms that are not at N = 128
FLAGS = Flags("flags (a), (b), (d)", {"D0": "non-finite", "D1": "(a)", "D2": "(b)", "D3": "(d)"})  # (c): drift (D4)
INDICES = ("input", "output")  # the state whose credit trains a block of DFA; published: input
NORMALISATIONS = ("sample", "batch", "none")
RATES = (1e-3, 5e-4, 2.5e-4)  # the stated one, and what it is halved to
PENALTIES = {
    "dfa": (0.0, 1e-4, 1e-3, 1e-2, 1e-1),
    "bp": (0.0, 1e-2),
    "fa": (0.0, 1e-4, 1e-2),
    "state_bridge": (0.0, 1e-2),
    "credit_bridge": (0.0, 1e-2),
}

# --- quantities of this paper alone ---


def _gamma_of_layer_0(record: RunRecord) -> float:
    row = last_valid_row(record)
    return math.nan if row is None else row.gamma[0]


LAYERS = tuple(q.gamma(layer) for layer in range(5))
LAYER_0 = Quantity("gamma_0", "Γ at layer 0, last valid epoch", "cosine", _gamma_of_layer_0, early=True)
FIRST_GAMMAS = tuple(
    at_epoch(name, heading, "cosine", epoch, read, early=True)
    for epoch in (1, 2)
    for name, heading, read in (
        ("gamma_0", "Γ at layer 0", q.row_gamma(0)),
        ("gamma_1", "Γ at layer 1", q.row_gamma(1)),
        ("gamma_deep", "deep Γ", q.row_deep_gamma),
    )
)
FIRST_GRADIENTS = tuple(
    at_epoch("g_L", "‖g_L‖ at N = 128", "scale", epoch, lambda row: row.d2, early=True) for epoch in range(1, 6)
)
FIRST_STATES = tuple(
    at_epoch("h_L", "‖h_L‖", "scale", epoch, lambda row: row.hidden_norms[-1], early=True) for epoch in (1, 2, 3)
)
GRADIENT_BEFORE = Quantity("g_L_0", "‖g_L‖ at N = 128 before training", "scale", DEEPEST_GRADIENT.read, early=True)
STATE_BEFORE = Quantity("h_L_0", "‖h_L‖ before training", "scale", DEEPEST_STATE.read, early=True)
_D2_LARGER = q.first_epoch("D2", lambda row: row.d2 * PUBLISHED_BATCH / LARGER)
FIRST_D2_LARGER = Quantity(f"first_D2_{LARGER}", f"first epoch of D2 at N = {LARGER:,}", "epoch", _D2_LARGER)
RHO_OF_BP = Quantity("rho_bp", "ρ of the gradient, absolute step, on BP", "cosine", q.RHO_ABSOLUTE_BP.read)
_PENALISED = "deep ρ, absolute step, DFA with penalty 0.01"
RHO_OF_DFA = Quantity("rho_dfa_penalised", _PENALISED, "cosine", q.RHO_ABSOLUTE.read)

STREAM = (ACCURACY, DEEPEST_STATE, DEEPEST_GRADIENT, GROWTH, q.DRIFT, q.REPORTED_GAMMA)
OF_FA = (q.DEEP_GAMMA, q.DEEP_GAMMA_INEXACT)
SIZES = (ACCURACY, DEEPEST_STATE, DEEPEST_GRADIENT, GROWTH)
FIRST_EPOCHS = (*FIRST_GAMMAS, LAYER_0, *FIRST_GRADIENTS)
FIRED = (q.FIRST_D1, q.FIRST_D2, ACCURACY)
FIRED_LARGER = (q.FIRST_D1, q.FIRST_D2, FIRST_D2_LARGER, ACCURACY)
FUNCTION = (
    *(q.DEEP_GAMMA, q.RHO, q.RHO_ABSOLUTE, q.RHO_ABSOLUTE_BP, q.NUDGE, q.NUDGE_ABSOLUTE),
    *(q.LOSS_DROP, q.BLOCK_DRIFT, q.EMBED_DRIFT),
)

# --- rows ---


def by_method(methods: tuple[str, ...], quantities: tuple[Quantity, ...], flags: Flags | None = None) -> list[RunGroup]:
    """One group for every method."""
    return [RunGroup(method, {"method": method}, quantities, flags) for method in methods]


def penalised(method: str, strength: float, quantities: tuple[Quantity, ...], flags: Flags | None = None) -> RunGroup:
    """The runs of a method under a penalty."""
    row = f"{method}, penalty {strength:g}" if strength else method
    return RunGroup(row, {"method": method, "penalty": strength}, quantities, flags)


def control(method: str, name: str) -> RunGroup:
    """The controls of a method; those of DFA with index = output."""
    index = {"method.index": "output"} if method == "dfa" else {}
    return RunGroup(f"{method}, {name}", {"method": method, "control": name, **index}, (ACCURACY,))


def rate_groups(rate: float) -> tuple[RunGroup, ...]:
    """One learning rate of DFA, beside the figures that four experiments published of its early epochs."""
    where, row = {"learning_rate": rate, "random_labels": False}, f"index input, rate {rate:g}"
    shuffled = {**where, "random_labels": True}
    return (
        RunGroup(row, where, (*FIRST_GRADIENTS, LAYER_0), beside=("early_epochs", "index input")),
        RunGroup(row, where, (q.FIRST_D1, FIRST_D2_LARGER), beside=("temporal", "resmlp, dfa, index input")),
        RunGroup(row, where, (ACCURACY,), beside=("penalty", "dfa")),
        RunGroup(f"{row}, random labels", shuffled, FIRST_STATES, beside=("causal_controls", SHUFFLED)),
    )


MAIN_AUDIT = (
    *by_method(("bp",), STREAM, FLAGS),
    *by_method(("fa",), (*STREAM, *OF_FA), FLAGS),
    *(
        RunGroup(f"dfa, index {index}", {"method": "dfa", "method.index": index}, (*STREAM, *LAYERS), FLAGS)
        for index in INDICES
    ),
    *by_method(("ep", "state_bridge", "credit_bridge"), STREAM, FLAGS),
    *(control(method, name) for name in ("frozen", "shallow") for method in METHODS),
)
PENALTY = tuple(
    penalised(method, strength, (*SIZES, q.DEEP_GAMMA, q.RHO_ABSOLUTE), FLAGS)
    for method, strengths in PENALTIES.items()
    for strength in strengths
)
BEFORE_TRAINING = RunGroup("index input", {"seed": 42}, (GRADIENT_BEFORE,), study="random_init")
EARLY_EPOCHS = (
    RunGroup("index input", {"method.index": "input", "epochs": LONG}, FIRST_EPOCHS),
    BEFORE_TRAINING,
    RunGroup("index output", {"method.index": "output", "epochs": LONG}, FIRST_EPOCHS),
    *(
        RunGroup(
            f"index {index}, {SHORT} epochs, audited",
            {"method.index": index, "epochs": SHORT},
            (DEEPEST_GRADIENT, *LAYERS, q.LEAVE_BEST_OUT),
        )
        for index in INDICES
    ),
)
WITH_LN: Settings = {"network": "resmlp", "network.terminal_ln": True}
WITHOUT_LN: Settings = {"network": "resmlp", "network.terminal_ln": False}
TEMPORAL = (  # D2 at N = 1,024 stands where the published epochs are those of that batch
    RunGroup("resmlp, dfa, index input", {**WITH_LN, "method": "dfa", "method.index": "input"}, FIRED_LARGER),
    RunGroup("resmlp, dfa, index output", {**WITH_LN, "method": "dfa", "method.index": "output"}, FIRED),
    RunGroup("resmlp, bp", {**WITH_LN, "method": "bp"}, FIRED),
    RunGroup("vit_mini, dfa", {"network": "vit_mini", "method": "dfa"}, FIRED_LARGER),
    RunGroup("vit_mini, bp", {"network": "vit_mini", "method": "bp"}, FIRED),
    RunGroup("resmlp without terminal LN, dfa", {**WITHOUT_LN, "method": "dfa"}, FIRED),
    RunGroup("resmlp without terminal LN, bp", {**WITHOUT_LN, "method": "bp"}, FIRED),
)
PLAIN: Settings = {"network.residual": True, "network.terminal_ln": True, "random_labels": False}
RANDOM: Settings = {**PLAIN, "random_labels": True}
UNADDED: Settings = {**PLAIN, "network.residual": False}
SHUFFLED = "random labels, index input"  # the published form
CAUSAL_CONTROLS = (
    RunGroup("as it is", PLAIN, SIZES),
    *(RunGroup(f"no residual addition, w2 std {s}", {**UNADDED, "network.w2_std": s}, SIZES) for s in (0.1, 0.2, 0.5)),
    RunGroup(SHUFFLED, {**RANDOM, "method.index": "input"}, (*SIZES, *FIRST_STATES)),
    RunGroup(SHUFFLED, {"seed": 42}, (STATE_BEFORE,), study="random_init"),
    RunGroup("random labels, index output", {**RANDOM, "method.index": "output"}, (*SIZES, *FIRST_STATES)),
    RunGroup("no terminal LN", {**PLAIN, "network.terminal_ln": False}, SIZES),
)
TRIANGULATION = (
    *(penalised(method, 1e-2, FUNCTION) for method in ("bp", "fa", "dfa", "state_bridge", "credit_bridge")),
    *(penalised("dfa", strength, FUNCTION) for strength in (0.0, 1e-4, 1e-1)),
    RunGroup("calibration", {"method": "bp"}, (RHO_OF_BP,), study="main_audit"),
    RunGroup("calibration", {"method": "dfa", "penalty": 1e-2}, (RHO_OF_DFA,)),
)
DEPTHS = ((512, (2, 4, 6, 8, 12)), (256, (2, 4, 8, 12)))
DEPTH_SCAN = tuple(
    RunGroup(f"d {width}, L {depth}", {"network.d": width, "network.depth": depth}, (ACCURACY, *OF_FA))
    for width, depths in DEPTHS
    for depth in depths
)
CREDIT_NORMALISATION = tuple(
    RunGroup(
        f"{method}, {how}",
        {"method": method, "method.normalisation": how},
        (ACCURACY, DEEPEST_STATE, GROWTH, DEEPEST_GRADIENT, q.FIRST_D1, q.FIRST_D2),
    )
    for method in ("dfa", "fa")
    for how in NORMALISATIONS
)
FRESH_FEEDBACK = RunGroup("dfa, penalty 0.01", {}, (q.DEEP_GAMMA, q.NULL_MEAN, q.NULL_STD, q.Z))
UNTRAINED = RunGroup("untrained", {}, (DEEPEST_STATE, DEEPEST_GRADIENT, GROWTH, q.DRIFT), FLAGS)
WIDE = by_method(METHODS, (ACCURACY, GROWTH, DEEPEST_STATE, DEEPEST_GRADIENT))
CIFAR100 = (*by_method(("bp", "fa", "dfa"), (ACCURACY, GROWTH, DEEPEST_GRADIENT)), control("bp", "frozen"))
# The bridges reject a stream whose width changes, so their published rows stay not run.
CNN = by_method(METHODS, (ACCURACY, GROWTH, DEEPEST_GRADIENT, q.FIRST_D2), FLAGS)
LEARNING_RATE = tuple(group for rate in RATES for group in rate_groups(rate))

OPEN = {"credit_bridge": "Credit Bridge", "state_bridge": "State Bridge", "ep": "EP"}  # their recipes were left open


def _readings(study: str, question: str, systems: tuple[str, ...]) -> Experiment:
    return Experiment(study, question, lambda archive: readings_table(archive, study, systems), rule=RULE)


EXPERIMENTS = (
    Experiment("main_audit", "Which methods' claims does the audit reject, and why?", MAIN_AUDIT),
    Experiment("wide", "Does the same happen at d = 512?", WIDE),
    Experiment("depth_scan", "Is FA's deep alignment more than its one exact layer?", DEPTH_SCAN),
    Experiment("cifar100", "Does the same happen with a hundred classes?", CIFAR100),
    Experiment("penalty", "Does a penalty on the blocks make depth useful?", PENALTY),
    Experiment("fresh_feedback", "Does feedback that never trained the network align with it too?", [FRESH_FEEDBACK]),
    Experiment("early_epochs", "What is DFA's alignment while the reference is still valid?", EARLY_EPOCHS),
    Experiment("temporal", "After which epoch does each diagnostic first fire?", TEMPORAL),
    Experiment("cnn", "Does the gradient collapse without a terminal LayerNorm, on a CNN?", CNN),
    Experiment("causal_controls", "What makes DFA's stream explode?", CAUSAL_CONTROLS),
    Experiment("decision_utility", "Which way of reporting rejects which method?", decision_utility, decisions),
    Experiment("threshold_sensitivity", "Do the verdicts depend on where the limits sit?", threshold_sensitivity),
    Experiment("random_init", "Is the audit silent on an untrained network?", [UNTRAINED]),
    Experiment("triangulation", "Does alignment predict a fall in loss?", TRIANGULATION),
    Experiment("ladder", "Does accuracy rise with the number of blocks that learn?", ladder),
    Experiment("partial_audit", "What can logs alone say, and does the full audit agree?", partial_audit),
    Experiment(
        "credit_normalisation",
        "Does the size of the credit decide whether the stream explodes?",
        CREDIT_NORMALISATION,
    ),
    Experiment("learning_rate", "Does the learning rate account for DFA's published first epochs?", LEARNING_RATE),
    *(
        _readings(f"readings_{system}", f"Which reading of {title} comes nearest to the published numbers?", (system,))
        for system, title in OPEN.items()
    ),
    _readings(SECOND, "How near do the nearest readings come in 30 epochs?", tuple(OPEN)),
)
