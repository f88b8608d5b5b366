"""Credit against something known: exact layers, the feedback under which it is the gradient, the block's own update."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from creditscope.conformance.clause import NotChecked, Remark, clause, note
from creditscope.conformance.signals import needs_states, readout_weight
from creditscope.conformance.subject import CheckedRule, Trial, seeded
from creditscope.methods.descent import Descent
from creditscope.methods.inside_weights import InsideWeights
from creditscope.methods.rule import Moment
from creditscope.networks.staged import StagedNetwork
from creditscope.stream.find import find_stream
from creditscope.stream.trace import capture, cross_entropy

CLOSE = 1e-4  # relative to the larger of the two
RATE, DECAY, STEPS = 0.05, 0.2, 3
UNKNOWN = "sign, transposition and order were not checked"


@clause(
    "exact", states="Layers declared exact receive the gradient; the head learns by its own, unless declared otherwise."
)
def exact(subject: CheckedRule) -> Iterator[Remark]:
    """exact_layers and exact_readout: an audit leaves these layers out of what it judges."""
    case = subject.case()
    network, batch, credit = case.network, case.batch, case.credit()
    gradients = capture(find_stream(network), batch).gradients
    layers = case.rule.innermost.exact_layers(network.depth) if case.rule.at_states else frozenset()
    for layer in sorted(layers):
        if not close(credit.signals[layer], gradients[layer]):
            yield Remark(f"a_{layer} is declared exact, but is not the gradient")
    loss = F.cross_entropy(network.readout(network.states(batch.inputs)[-1].detach()), batch.labels)
    name = readout_weight(case)
    (expected,) = torch.autograd.grad(loss, network.get_parameter(name))
    if close(credit.gradients[name], expected) != case.rule.exact_readout:
        said = "by its exact gradient" if case.rule.exact_readout else "otherwise than by its gradient"
        yield Remark(f"{name} is declared to learn {said} (exact_readout), but does not")


@clause(
    "identity",
    states="With the Jacobian that it stands for in place of the feedback, the credit of a sample is its gradient.",
    blind="Rules that declare no stands_for; B acting on features that several positions share.",
)
def identity(subject: CheckedRule) -> Iterator[Remark]:
    """Finds transposed feedback, an inverted sign, and credit of the layer above or below."""
    case = subject.case(samples=1)
    needs_states(case, f"{UNKNOWN}: there is no credit at the states")
    if case.rule.stands_for is None:
        why = "stands_for is not declared: nothing says what sign, transposition and order must be"
        raise NotChecked(why, "" if _must_point_along(case) else f"{UNKNOWN}: declare stands_for")
    yield from make_exact(case)
    carried = cross_entropy if case.rule.carries == "error" else _against_target
    gradients = capture(find_stream(case.network), case.batch, carried).gradients
    for layer, (signal, gradient) in enumerate(zip(case.credit().signals, gradients, strict=True)):
        if not close(signal, gradient):
            far = ((signal - gradient).norm() / gradient.norm()).item()
            yield Remark(f"a_{layer} is not g_{layer}: ‖a - g‖/‖g‖ = {far:.2g}, cosine {cosine(signal, gradient):.3f}")


def _against_target(logits: Tensor, labels: Tensor) -> Tensor:
    """The loss whose gradient at the logits is -onehot(labels)."""
    return -logits.gather(1, labels[:, None])[:, 0]


def make_exact(case: Trial) -> Iterator[Remark]:
    """Overwrite the feedback of a case with what it stands for; a shape that does not fit is a fault on flat states."""
    wanted = jacobians(case)
    flat = all(state.dim() == 2 for state in case.network.states(case.batch.inputs))
    for name, matrix in case.rule.feedback_matrices(case.feedback).items():
        if name not in wanted:
            yield Remark(f"the feedback {name} stands for nothing in this network; expected {', '.join(wanted)}")
        elif matrix.shape != wanted[name].shape:
            shapes = f"{name} has the shape {tuple(matrix.shape)}, what it stands for {tuple(wanted[name].shape)}"
            if flat or case.rule.stands_for == "weight":
                yield Remark(shapes)
                continue
            why = f"several positions share the feedback: {shapes}"
            raise NotChecked(why, f"{UNKNOWN}: try a network of flat states")
        else:
            with torch.no_grad():
                matrix.copy_(wanted[name])


def jacobians(case: Trial) -> dict[str, Tensor]:
    """By the name of the feedback, what it stands for; that of a state at the first sample of the batch."""
    network, kind = case.network, case.rule.stands_for
    if kind == "weight":
        return {name: p.detach() for name, p in network.named_parameters()}
    if kind == "magnitude":
        return {f"M.{name}": p.detach().abs() for name, p in network.named_parameters()}
    states = [state.detach()[:1] for state in network.states(case.batch.inputs)]
    if kind == "block":
        return {f"B.{block}": _jacobian(network, states[block], block, block + 1) for block in range(network.depth)}
    return {f"B.{layer}": _jacobian(network, state, layer, None) for layer, state in enumerate(states)}


def _jacobian(network: StagedNetwork, state: Tensor, start: int, end: int | None) -> Tensor:
    """∂h_end/∂h_start, or ∂logits/∂h_start without an end; rows: outputs, columns: the flattened state."""

    def onward(moving: Tensor) -> Tensor:
        for index in range(start, network.depth if end is None else end):
            moving = network.merge(index, moving, network.branch(index, moving))
        return network.readout(moving) if end is None else moving

    full: Tensor = torch.autograd.functional.jacobian(onward, state)  # type: ignore[no-untyped-call]
    return full.reshape(-1, state.numel())


@clause(
    "update",
    states="A block learns by the product of its own Jacobian with the credit of its output, the embedding by a_0.",
    blind="The scale of an update, which a normalisation sets; rules that declare other states for it.",
)
def update(subject: CheckedRule) -> Iterator[Remark]:
    """On one sample, where a normalisation changes the length of the update and nothing else."""
    case = subject.case(samples=1)
    needs_states(case)
    if not case.rule.exact_readout:
        raise NotChecked("the rule declares that its gradients are not taken at the states of the forward pass")
    if case.rule.stands_for in ("weight", "magnitude"):  # inside a block the way back is a weight's own only then
        yield from make_exact(case)
    elif isinstance(case.rule.innermost, InsideWeights):
        raise NotChecked("inside a block credit passes feedback that declares no stands_for")
    credit, pieces = case.credit(), case.network.in_pieces(case.batch.inputs, lambda block: True)
    outside = set(pieces.through_readout(torch.ones_like(pieces.logits))[1])
    receives = getattr(case.rule.innermost, "receives", lambda block: block + 1)
    for stage, output in enumerate(pieces.stages):
        signal = credit.signals[receives(stage - 1) if stage else 0]
        names = [
            n for n in credit.gradients if (b := case.network.block_of(n)) == stage - 1 or (b is None and not stage)
        ]
        names = [name for name in names if name not in outside]
        weights = [case.network.get_parameter(name) for name in names]
        expected = torch.autograd.grad(output, weights, signal.to(output), allow_unused=True)
        pairs = [(credit.gradients[name], e) for name, e in zip(names, expected, strict=True) if e is not None]
        found, wanted = (torch.cat([pair[side].flatten() for pair in pairs]) for side in (0, 1))
        if not cosine(found, wanted) > 1 - CLOSE:
            who = f"block {stage - 1}" if stage else "the embedding"
            yield Remark(f"{who} does not learn from the credit of its output: cosine {cosine(found, wanted):.4f}")


@clause(
    "direction",
    states="Credit without feedback that uses the weights above, with BP as its reference, points along the gradient.",
    blind="The sign of local credit that declares no stands_for: it may point anywhere.",
)
def direction(subject: CheckedRule) -> Iterator[Remark]:
    """The mean cosine over 24 samples is positive at every layer."""
    case = subject.case(samples=24)
    needs_states(case)
    if case.rule.stands_for is not None or case.feedback.tensors:
        raise NotChecked("credit through random feedback may point anywhere; the clause identity checks its sign")
    if not _must_point_along(case):
        raise NotChecked("declared local, or with a reference of its own: nothing says how it must point")
    gradients = capture(find_stream(case.network), case.batch).gradients
    pairs = zip(case.credit().signals, gradients, strict=True)
    means = [F.cosine_similarity(a.double().flatten(1), g.double().flatten(1), eps=0).mean().item() for a, g in pairs]
    for layer, mean in enumerate(means):
        if not mean > 0:
            yield Remark(f"the mean cosine of a_{layer} and the gradient is {mean:.3f}")
    yield note(f"mean cosines from {min(means):.2f} to {max(means):.2f}")


def _must_point_along(case: Trial) -> bool:
    """Whether the clause direction applies."""
    own_reference = case.rule.facts is not None and case.rule.facts.reference
    return case.rule.uses_weights_above and not own_reference and not case.feedback.tensors


@clause(
    "decay", states="Feedback that follows the weights takes their steps: B - W shrinks by the factor 1 - ηλ in each."
)
def decay(subject: CheckedRule) -> Iterator[Remark]:
    """B_t - W_t = (1 - ηλ)ᵗ (B_0 - W_0), under SGD."""
    case = subject.case()
    if not case.rule.follows_weights:
        learnt = case.rule.feedback_matrices(case.feedback).keys() - case.feedback.tensors.keys()
        unknown = "the decay of its learnt feedback was not checked: declare follows_weights if it has one"
        raise NotChecked("follows_weights is not declared", unknown if learnt else "")
    sgd = torch.optim.SGD(case.network.parameters(), lr=RATE, weight_decay=DECAY)
    descent = Descent.of(sgd)
    feedback = case.rule.equip(case.feedback, descent)
    apart = _apart(case._replace(feedback=feedback))
    for _ in range(STEPS):
        gradients = case.rule.learn(
            case.network, feedback, case.batch, Moment(0.5, seeded(3), descent=descent)
        ).gradients
        for name, parameter in case.network.named_parameters():
            parameter.grad = gradients[name]
        sgd.step()
    factor = (1 - RATE * DECAY) ** STEPS
    for name, now in _apart(case._replace(feedback=feedback)).items():
        if not close(now, factor * apart[name]):
            shrunk = (now.norm() / apart[name].norm()).item()
            yield Remark(f"B - W of {name} went to {shrunk:.4f} of its size in {STEPS} steps, not to {factor:.4f}")


def _apart(case: Trial) -> dict[str, Tensor]:
    """B - W by the name of the weight."""
    learnt = case.rule.feedback_matrices(case.feedback).items()
    return {name: (b - case.network.get_parameter(name)).detach().clone() for name, b in learnt}


def close(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors agree, relative to the larger one."""
    return bool((one.double() - other.double()).norm() <= CLOSE * max(one.double().norm(), other.double().norm()))


def cosine(one: Tensor, other: Tensor) -> float:
    """The cosine of two tensors laid flat; NaN where one is 0."""
    u, v = one.double().flatten(), other.double().flatten()
    return float(u @ v / (u.norm() * v.norm()))
