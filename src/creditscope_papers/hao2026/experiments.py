"""The experiments in order, most of them as one table of data: rows by settings, and the quantities of each."""

from __future__ import annotations

import math

from creditscope.papers.paper import Experiment, RunGroup
from creditscope.papers.published import IMAGES
from creditscope.papers.quantities import (
    ACCURACY,
    BLOCK_DRIFT,
    DEEP_GAMMA,
    DEEP_GAMMA_INEXACT,
    DEEPEST_GRADIENT,
    DEEPEST_STATE,
    DRIFT,
    EMBED_DRIFT,
    FIRST_D1,
    FIRST_D2,
    GROWTH,
    LEAVE_BEST_OUT,
    LOSS_DROP,
    NUDGE,
    NUDGE_ABSOLUTE,
    NULL_MEAN,
    NULL_STD,
    REPORTED_GAMMA,
    RHO,
    RHO_ABSOLUTE,
    RHO_ABSOLUTE_BP,
    Flags,
    Quantity,
    Z,
    at_epoch,
    first_epoch,
    gamma,
    row_deep_gamma,
    row_gamma,
)
from creditscope.records.run import RunRecord
from creditscope.study.declaration import Value
from creditscope_papers.hao2026.ladder import ladder
from creditscope_papers.hao2026.logs import partial_audit
from creditscope_papers.hao2026.profiles import LONG, SHORT, last_valid_row
from creditscope_papers.hao2026.reporting import METHODS, decision_utility, decisions
from creditscope_papers.hao2026.thresholds import threshold_sensitivity

Settings = dict[str, Value]
LARGER = 1024  # the batch of the published gradient norms that are not at N = 128
FLAGS = Flags("flags (a), (b), (d)", {"D0": "non-finite", "D1": "(a)", "D2": "(b)", "D3": "(d)"})  # (c): drift (D4)
INDICES = ("input", "output")  # the state whose credit trains a block of DFA; published: input

# --- quantities of this paper alone ---


def _gamma_of_layer_0(record: RunRecord) -> float:
    row = last_valid_row(record)
    return math.nan if row is None else row.gamma[0]


LAYERS = tuple(gamma(layer) for layer in range(5))
LAYER_0 = Quantity("gamma_0", "Γ at layer 0, last valid epoch", "cosine", _gamma_of_layer_0, early=True)
FIRST_GAMMAS = tuple(
    quantity
    for epoch in (1, 2)
    for quantity in (
        at_epoch("gamma_0", "Γ at layer 0", "cosine", epoch, row_gamma(0)),
        at_epoch("gamma_1", "Γ at layer 1", "cosine", epoch, row_gamma(1)),
        at_epoch("gamma_deep", "deep Γ", "cosine", epoch, row_deep_gamma),
    )
)
FIRST_GRADIENTS = tuple(
    at_epoch("g_L", "‖g_L‖ at N = 128", "scale", epoch, lambda row: row.d2) for epoch in (1, 2, 3, 4, 5)
)
FIRST_STATES = tuple(at_epoch("h_L", "‖h_L‖", "scale", epoch, lambda row: row.hidden_norms[-1]) for epoch in (1, 2, 3))
GRADIENT_BEFORE = Quantity("g_L_0", "‖g_L‖ at N = 128 before training", "scale", DEEPEST_GRADIENT.read, early=True)
STATE_BEFORE = Quantity("h_L_0", "‖h_L‖ before training", "scale", DEEPEST_STATE.read, early=True)
FIRST_D2_LARGER = Quantity(
    f"first_D2_{LARGER}",
    f"first epoch of D2 at N = {LARGER:,}",
    "epoch",
    first_epoch("D2", lambda row: row.d2 * IMAGES / LARGER),
)
RHO_OF_BP = Quantity("rho_bp", "ρ of the gradient, absolute step, on BP", "cosine", RHO_ABSOLUTE_BP.read)
RHO_OF_DFA = Quantity("rho_dfa_penalised", "deep ρ, absolute step, DFA with penalty 0.01", "cosine", RHO_ABSOLUTE.read)

# --- rows ---


def penalised(method: str, strength: float) -> str:
    """The name of a row with a penalty."""
    return f"{method}, penalty {strength:g}" if strength else method


STREAM = (ACCURACY, DEEPEST_STATE, DEEPEST_GRADIENT, GROWTH, DRIFT, REPORTED_GAMMA)
OF_FA = (DEEP_GAMMA, DEEP_GAMMA_INEXACT)
DFA_ROWS = tuple((f"dfa, index {index}", {"method": "dfa", "method.index": index}) for index in INDICES)
MAIN_AUDIT = (
    RunGroup("bp", {"method": "bp"}, STREAM, FLAGS),
    RunGroup("fa", {"method": "fa"}, (*STREAM, *OF_FA), FLAGS),
    *(RunGroup(row, where, (*STREAM, *LAYERS), FLAGS) for row, where in DFA_ROWS),
    *(RunGroup(method, {"method": method}, STREAM, FLAGS) for method in ("ep", "state_bridge", "credit_bridge")),
    *(
        RunGroup(
            f"{method}, {control}",
            {"method": method, "control": control, **({"method.index": "output"} if method == "dfa" else {})},
            (ACCURACY,),
        )
        for control in ("frozen", "shallow")
        for method in METHODS
    ),
)
CIFAR100 = (
    *(RunGroup(one, {"method": one}, (ACCURACY, GROWTH, DEEPEST_GRADIENT)) for one in ("bp", "fa", "dfa")),
    RunGroup("bp, frozen", {"method": "bp", "control": "frozen"}, (ACCURACY,)),
)
PENALTIES = {
    "dfa": (0.0, 1e-4, 1e-3, 1e-2, 1e-1),
    "bp": (0.0, 1e-2),
    "fa": (0.0, 1e-4, 1e-2),
    "state_bridge": (0.0, 1e-2),
    "credit_bridge": (0.0, 1e-2),
}
PENALTY = tuple(
    RunGroup(
        penalised(method, strength),
        {"method": method, "penalty": strength},
        (ACCURACY, DEEPEST_STATE, DEEPEST_GRADIENT, GROWTH, DEEP_GAMMA, RHO_ABSOLUTE),
        FLAGS,
    )
    for method, strengths in PENALTIES.items()
    for strength in strengths
)
FIRST_EPOCHS = (*FIRST_GAMMAS, LAYER_0, *FIRST_GRADIENTS)
EARLY_EPOCHS = (
    RunGroup("index input", {"method.index": "input", "epochs": LONG}, FIRST_EPOCHS),
    RunGroup("index input", {"seed": 42}, (GRADIENT_BEFORE,), study="random_init"),
    RunGroup("index output", {"method.index": "output", "epochs": LONG}, FIRST_EPOCHS),
    *(
        RunGroup(
            f"index {index}, {SHORT} epochs, audited",
            {"method.index": index, "epochs": SHORT},
            (DEEPEST_GRADIENT, *LAYERS, LEAVE_BEST_OUT),
        )
        for index in INDICES
    ),
)
FIRSTS, FIRSTS_LARGER = (FIRST_D1, FIRST_D2, ACCURACY), (FIRST_D1, FIRST_D2, FIRST_D2_LARGER, ACCURACY)
WITH_LN: Settings = {"network": "resmlp", "network.terminal_ln": True}
WITHOUT_LN: Settings = {"network": "resmlp", "network.terminal_ln": False}
TEMPORAL = (  # D2 at N = 1,024 stands where the published epochs are those of that batch
    RunGroup("resmlp, dfa, index input", {**WITH_LN, "method": "dfa", "method.index": "input"}, FIRSTS_LARGER),
    RunGroup("resmlp, dfa, index output", {**WITH_LN, "method": "dfa", "method.index": "output"}, FIRSTS),
    RunGroup("resmlp, bp", {**WITH_LN, "method": "bp"}, FIRSTS),
    RunGroup("vit_mini, dfa", {"network": "vit_mini", "method": "dfa"}, FIRSTS_LARGER),
    RunGroup("vit_mini, bp", {"network": "vit_mini", "method": "bp"}, FIRSTS),
    RunGroup("resmlp without terminal LN, dfa", {**WITHOUT_LN, "method": "dfa"}, FIRSTS),
    RunGroup("resmlp without terminal LN, bp", {**WITHOUT_LN, "method": "bp"}, FIRSTS),
)
PLAIN: Settings = {"network.residual": True, "network.terminal_ln": True, "random_labels": False}
SIZES = (ACCURACY, DEEPEST_STATE, DEEPEST_GRADIENT, GROWTH)
SHUFFLED = "random labels, index input"  # the published form
CAUSAL_CONTROLS = (
    RunGroup("as it is", PLAIN, SIZES),
    *(
        RunGroup(
            f"no residual addition, w2 std {std}", {**PLAIN, "network.residual": False, "network.w2_std": std}, SIZES
        )
        for std in (0.1, 0.2, 0.5)
    ),
    RunGroup(SHUFFLED, {**PLAIN, "random_labels": True, "method.index": "input"}, (*SIZES, *FIRST_STATES)),
    RunGroup(SHUFFLED, {"seed": 42}, (STATE_BEFORE,), study="random_init"),
    RunGroup(
        "random labels, index output",
        {**PLAIN, "random_labels": True, "method.index": "output"},
        (*SIZES, *FIRST_STATES),
    ),
    RunGroup("no terminal LN", {**PLAIN, "network.terminal_ln": False}, SIZES),
)
FUNCTION = (DEEP_GAMMA, RHO, RHO_ABSOLUTE, RHO_ABSOLUTE_BP, NUDGE, NUDGE_ABSOLUTE, LOSS_DROP, BLOCK_DRIFT, EMBED_DRIFT)
TRIANGULATED = (
    *((method, 1e-2) for method in ("bp", "fa", "dfa", "state_bridge", "credit_bridge")),
    *(("dfa", strength) for strength in (0.0, 1e-4, 1e-1)),
)
TRIANGULATION = (
    *(RunGroup(penalised(one, at), {"method": one, "penalty": at}, FUNCTION) for one, at in TRIANGULATED),
    RunGroup("calibration", {"method": "bp"}, (RHO_OF_BP,), study="main_audit"),
    RunGroup("calibration", {"method": "dfa", "penalty": 1e-2}, (RHO_OF_DFA,)),
)
NORMALISATIONS = ("sample", "batch", "none")
RATES = (1e-3, 5e-4, 2.5e-4)  # the stated one, and what it is halved to


def rate_groups(rate: float) -> tuple[RunGroup, ...]:
    """One learning rate of DFA, beside the figures that four experiments published of its early epochs."""
    where, row = {"learning_rate": rate, "random_labels": False}, f"index input, rate {rate:g}"
    shuffled = {**where, "random_labels": True}
    return (
        RunGroup(row, where, (*FIRST_GRADIENTS, LAYER_0), beside=("early_epochs", "index input")),
        RunGroup(row, where, (FIRST_D1, FIRST_D2_LARGER), beside=("temporal", "resmlp, dfa, index input")),
        RunGroup(row, where, (ACCURACY,), beside=("penalty", "dfa")),
        RunGroup(f"{row}, random labels", shuffled, FIRST_STATES, beside=("causal_controls", SHUFFLED)),
    )


EXPERIMENTS = (
    Experiment("main_audit", "Which methods' claims does the audit reject, and why?", MAIN_AUDIT),
    Experiment(
        "wide",
        "Does the same happen at d = 512?",
        tuple(RunGroup(one, {"method": one}, (ACCURACY, GROWTH, DEEPEST_STATE, DEEPEST_GRADIENT)) for one in METHODS),
    ),
    Experiment(
        "depth_scan",
        "Is FA's deep alignment more than its one exact layer?",
        tuple(
            RunGroup(f"d {width}, L {depth}", {"network.d": width, "network.depth": depth}, (ACCURACY, *OF_FA))
            for width, depths in ((512, (2, 4, 6, 8, 12)), (256, (2, 4, 8, 12)))
            for depth in depths
        ),
    ),
    Experiment("cifar100", "Does the same happen with a hundred classes?", CIFAR100),
    Experiment("penalty", "Does a penalty on the blocks make depth useful?", PENALTY),
    Experiment(
        "fresh_feedback",
        "Does feedback that never trained the network align with it too?",
        (RunGroup("dfa, penalty 0.01", {}, (DEEP_GAMMA, NULL_MEAN, NULL_STD, Z)),),
    ),
    Experiment("early_epochs", "What is DFA's alignment while the reference is still valid?", EARLY_EPOCHS),
    Experiment("temporal", "After which epoch does each diagnostic first fire?", TEMPORAL),
    Experiment(
        "cnn",  # the bridges reject a stream whose width changes, so their published rows stay not run
        "Does the gradient collapse without a terminal LayerNorm, on a CNN?",
        tuple(RunGroup(one, {"method": one}, (ACCURACY, GROWTH, DEEPEST_GRADIENT, FIRST_D2), FLAGS) for one in METHODS),
    ),
    Experiment("causal_controls", "What makes DFA's stream explode?", CAUSAL_CONTROLS),
    Experiment("decision_utility", "Which way of reporting rejects which method?", decision_utility, decisions),
    Experiment("threshold_sensitivity", "Do the verdicts depend on where the limits sit?", threshold_sensitivity),
    Experiment(
        "random_init",
        "Is the audit silent on an untrained network?",
        (RunGroup("untrained", {}, (DEEPEST_STATE, DEEPEST_GRADIENT, GROWTH, DRIFT), FLAGS),),
    ),
    Experiment("triangulation", "Does alignment go with what it should stand for?", TRIANGULATION),
    Experiment("ladder", "Does accuracy rise with the number of blocks that learn?", ladder),
    Experiment("partial_audit", "What can logs alone say, and does the full audit agree?", partial_audit),
    Experiment(
        "credit_normalisation",
        "Does the size of the credit decide whether the stream explodes?",
        tuple(
            RunGroup(
                f"{method}, {how}",
                {"method": method, "method.normalisation": how},
                (ACCURACY, DEEPEST_STATE, GROWTH, DEEPEST_GRADIENT, FIRST_D1, FIRST_D2),
            )
            for method in ("dfa", "fa")
            for how in NORMALISATIONS
        ),
    ),
    Experiment(
        "learning_rate",
        "Does the learning rate account for DFA's published first epochs?",
        tuple(group for rate in RATES for group in rate_groups(rate)),
    ),
)
