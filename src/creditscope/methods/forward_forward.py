"""Forward-forward: every layer tells inputs with the right label from inputs with a wrong one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.errors import InvalidInput
from creditscope.methods import method
from creditscope.methods.local import forward_in_pieces
from creditscope.methods.relaxation import held_statistics, recorded_statistics
from creditscope.methods.rule import EVERYTHING, CreditRule, Feedback, Moment, Scope
from creditscope.networks.mlp import MLP
from creditscope.networks.staged import StagedNetwork


@method(
    "forward_forward",
    summary="Forward-forward: every layer learns to have large activity for a right label and small for a wrong one.",
    formula="ΔW_l = ∂/∂W_l [-log σ(G_l - θ) on positives, -log σ(θ - G_l) on negatives],  G_l = Σ h_l²,  "
    "h_{l+1} = F_l(h_l/‖h_l‖)",
    paper="Hinton (2022)",
    reference="the layer's own loss",
    networks=("mlp",),
    identities={
        "the update is ∓(1 - σ(±(G - θ)))·2 h xᵀ on active units": (
            "tests/methods/test_forward_forward.py::test_the_update_is_its_closed_form"
        ),
        "weights above a layer do not change its update": (
            "tests/methods/test_forward_forward.py::test_weights_above_a_layer_do_not_change_its_update"
        ),
    },
    fails="A layer learns what its own goodness needs, whether or not later layers need it. Predicting takes a "
    "forward pass for every class, and the label must fit into the input.",
)
@dataclass(frozen=True)
class ForwardForward(CreditRule):
    """Every layer descends a loss of its own goodness G = Σ h²; no credit crosses a layer.

    The label is written one-hot into the first features of the input, `scale` at its place. A positive carries the
    sample's own label, a negative a wrong one: drawn in training, and in an audit the next wrong one in turn, so that
    all are equally frequent. Between layers a state is divided by its length. The method predicts the label for which
    the goodness of all layers together is largest. The read-out learns by its exact gradient on the plain input, so
    that the network itself can be audited; it plays no part in the predictions.
    """

    theta: float = 2.0
    scale: float = 1.0

    at_states = False

    def __post_init__(self) -> None:
        for name in ("theta", "scale"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InvalidInput(
                    f"{name} must be a positive number, got {getattr(self, name)!r}.\n"
                    "Goodness could not tell a right label from a wrong one. "
                    f"The default is {getattr(type(self), name):g}."
                )

    def feedback(self, network: StagedNetwork, example: Batch, generator: torch.Generator) -> Feedback:
        """No feedback; refuses a network without layers to compare, and inputs without room for a label."""
        plain = as_mlp(network, self.name)
        classes, features = plain.head.out_features, plain.embed.w.in_features
        if features < classes:
            raise InvalidInput(
                f"The inputs have {features} features, but there are {classes} classes.\n"
                "The label could not be written into the input. Use inputs with at least as many features as classes."
            )
        return Feedback()

    def credit(self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING) -> Credit:
        """The gradients of every layer's own loss, with the wrong labels in turn."""
        return self._update(network, batch, _in_turn(batch), scope)

    def learn(
        self, network: StagedNetwork, feedback: Feedback, batch: Batch, moment: Moment, scope: Scope = EVERYTHING
    ) -> Credit:
        """The same with wrong labels that are drawn."""
        turns = torch.randint(2**31, batch.labels.shape, generator=moment.generator)
        return self._update(network, batch, turns.to(batch.labels.device), scope)

    def own_reference(
        self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING
    ) -> Credit:
        """∓(1 - σ(±(G_l - θ)))·2 h_l in closed form at the output of every layer, carried to its own weights."""
        wrong = self._wrong(network, batch, _in_turn(batch))
        with recorded_statistics(network) as statistics:
            seen = forward_in_pieces(network, batch, scope)
        inner = {name: p for name, p in scope.parameters(network).items() if name not in seen.readout}
        outputs, slopes = [], []
        with held_statistics(statistics), torch.enable_grad():
            for sign, labels in ((1, batch.labels), (-1, wrong)):
                for state in self._states(network, batch.inputs, labels):
                    h = state.detach()
                    missed = 1 - torch.sigmoid(sign * (h.square().sum(1, keepdim=True) - self.theta))
                    outputs.append(state)
                    slopes.append(-sign * missed * 2 * h / len(h))
            found = torch.autograd.grad(outputs, list(inner.values()), slopes)
        return Credit((), {**dict(zip(inner, found, strict=True)), **seen.readout}, seen.loss)

    def _wrong(self, network: StagedNetwork, batch: Batch, turns: Tensor) -> Tensor:
        """A wrong label for every sample: by how many places it follows the right one is a matter of `turns`."""
        classes = as_mlp(network, self.name).head.out_features
        return (batch.labels + 1 + turns % max(classes - 1, 1)) % classes

    def _update(self, network: StagedNetwork, batch: Batch, turns: Tensor, scope: Scope) -> Credit:
        wrong = self._wrong(network, batch, turns)
        with recorded_statistics(network) as statistics:
            seen = forward_in_pieces(network, batch, scope)
        inner = {name: p for name, p in scope.parameters(network).items() if name not in seen.readout}
        with held_statistics(statistics), torch.enable_grad():
            terms = [self._loss(network, batch.inputs, batch.labels, 1), self._loss(network, batch.inputs, wrong, -1)]
            sizes = [branch.square().sum() for branch in seen.branches if branch.requires_grad and scope.penalty]
            total = torch.stack(terms).sum() + scope.penalty / seen.count * sum(sizes, torch.zeros_like(terms[0]))
            found = torch.autograd.grad(total, list(inner.values()))
        gradients = dict(zip(inner, found, strict=True))
        noted = {"positive_loss": terms[0].detach(), "negative_loss": terms[1].detach()}
        return Credit((), {**gradients, **seen.readout}, seen.loss, noted)

    def _loss(self, network: StagedNetwork, inputs: Tensor, labels: Tensor, sign: int) -> Tensor:
        """Σ_l of the batch mean of -log σ(±(G_l - θ)); every layer in a graph of its own."""
        goodness = self._goodness(network, inputs, labels)
        return torch.stack([F.softplus(sign * (self.theta - g)).mean() for g in goodness]).sum()

    def _goodness(self, network: StagedNetwork, inputs: Tensor, labels: Tensor) -> Iterator[Tensor]:
        """G_0..G_L of each sample with this label written in."""
        return (state.square().sum(1) for state in self._states(network, inputs, labels))

    def _states(self, network: StagedNetwork, inputs: Tensor, labels: Tensor) -> Iterator[Tensor]:
        """h_0..h_L with this label written in, each in the graph of its own layer."""
        state = network.embedding(written(inputs, labels, as_mlp(network, self.name).head.out_features, self.scale))
        yield state
        for index in range(network.depth):
            below = _unit(state.detach())
            state = network.merge(index, below, network.branch(index, below))
            yield state

    @torch.no_grad()
    def answers(self, network: StagedNetwork, feedback: Feedback, inputs: Tensor) -> Tensor:
        """The goodness of every label, summed over the layers, (N, classes): no label is given."""
        classes, count = as_mlp(network, self.name).head.out_features, len(inputs)
        labels = [torch.full((count,), label, device=inputs.device) for label in range(classes)]
        columns = [torch.stack(list(self._goodness(network, inputs, label))).sum(0) for label in labels]
        return torch.stack(columns, 1)


def written(inputs: Tensor, labels: Tensor, classes: int, scale: float) -> Tensor:
    """The flattened inputs with the label one-hot in their first features."""
    marked = inputs.flatten(1).clone()
    marked[:, :classes] = scale * F.one_hot(labels, classes).to(marked)
    return marked


def as_mlp(network: StagedNetwork, rule: str) -> MLP:
    """The network as a plain MLP; any other is refused."""
    if not isinstance(network, MLP):
        raise InvalidInput(
            f"{rule} was given a {network.title}, but is defined for 'mlp' only.\n"
            "Its updates are those of fully connected layers. Use 'mlp', or another method."
        )
    return network


def _in_turn(batch: Batch) -> Tensor:
    """The place of every sample in its batch."""
    return torch.arange(len(batch.labels), device=batch.labels.device)


def _unit(state: Tensor) -> Tensor:
    """h/‖h‖; zeros stay zeros."""
    lengths = state.norm(dim=1, keepdim=True)
    return torch.where(lengths > 0, state / lengths, state)
