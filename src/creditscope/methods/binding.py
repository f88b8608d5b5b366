"""rule(): a credit rule bound to any model, for a training loop of your own."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.errors import InvalidInput, ModelMismatch
from creditscope.methods import methods
from creditscope.methods.adapted import adapted
from creditscope.methods.bound_rule import BoundRule
from creditscope.methods.descent import Descent
from creditscope.methods.loss import LossFunction, check_classes
from creditscope.methods.membership import Tied
from creditscope.methods.own_loop import Epoch, step_together
from creditscope.methods.rule import CreditRule, Moment, run_generator
from creditscope.methods.wrappers import wrapped
from creditscope.networks.staged import StagedNetwork
from creditscope.options import filled, options_of
from creditscope.stream.isolation import undisturbed

WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


@dataclass(frozen=True, slots=True)
class ModelRule(BoundRule):
    """A rule bound to a model: `backward` in a training loop, `signals` for `audit(credit=...)` and `Monitor`."""

    generator: torch.Generator
    optimizer: torch.optim.Optimizer | None = None
    epoch: Epoch = field(default_factory=Epoch, compare=False)

    def __repr__(self) -> str:
        return f"ModelRule({self.rule.innermost.name!r}, {self.network.title}, {self.network.depth} blocks)"

    def backward(
        self,
        inputs: Any,
        labels: Tensor,
        *,
        loss_fn: LossFunction | None = None,
        progress: float = 1.0,
        opens_epoch: bool | None = None,
    ) -> Tensor:
        """Run the model on a batch and add the rule's gradients to .grad of every parameter; returns the mean loss.

        In place of `loss = loss_fn(model(inputs), labels); loss.backward()`: gradients accumulate, and parameters
        with requires_grad = False keep theirs. Call it under the autocast context of the forward pass, if you use one.

        inputs       what the model takes; a tuple is passed as arguments, a dict as keyword arguments
        labels       class numbers (N,), or whatever loss_fn takes
        loss_fn      (logits, labels) -> one loss per sample, or their mean; default: as given to `rule`
        progress     share of the training that is done, for rules with a warm-up
        opens_epoch  whether an epoch begins with this call; default: every 100 calls. There a rule measures its step
                     size ("predictive_coding"), and raises Diverged where it objects to the epoch before
        """
        if torch.is_inference_mode_enabled():
            raise InvalidInput(
                "backward was called inside torch.inference_mode.\n"
                "No graph is recorded there, and nothing would learn. Leave inference mode in the training loop."
            )
        network = self.network if loss_fn is None else judged_by(self.network, loss_fn)
        if network.loss_fn is None:
            check_labels(labels, None)
        descent = None if self.optimizer is None else Descent.of(self.optimizer)
        opens = self.epoch.opens(opens_epoch)
        if opens:
            self.epoch.close(self.rule)
        moment = Moment(progress, self.generator, opens, descent, deferred=True)
        credit = self.rule.learn(network, self.feedback, Batch(inputs, labels), moment)
        self.epoch.note(credit)
        for name, parameter in network.named_parameters():
            if name in credit.gradients:
                accumulate(parameter, credit.gradients[name])
        return credit.loss

    def state_dict(self) -> dict[str, Any]:
        """The rule's feedback, auxiliary networks, their optimiser and the generator: save it beside the model."""
        networks, optimiser = self.feedback.networks, self.feedback.optimiser
        return {
            "method": self.rule.innermost.name,
            "feedback": {name: tensor.detach().clone() for name, tensor in self.feedback.tensors.items()},
            "auxiliary": {} if networks is None else copy.deepcopy(networks.state_dict()),
            "optimiser": {} if optimiser is None else copy.deepcopy(optimiser.state_dict()),
            "generator": self.generator.get_state(),
            "epoch": {"calls": self.epoch.calls, "sums": dict(self.epoch.sums)},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what `state_dict` returned, in place."""
        own = self.state_dict()
        for part in ("feedback", "auxiliary"):
            _check_tensors(part, own[part], state.get(part, {}))
        if state.get("method") != own["method"]:
            raise InvalidInput(
                f"The state is that of the rule {state.get('method')!r}, not of {own['method']!r}.\n"
                "Its feedback means something else there. Bind the rule that was saved."
            )
        with torch.no_grad():
            for name, tensor in self.feedback.tensors.items():
                tensor.copy_(state["feedback"][name])
        if self.feedback.networks is not None:
            self.feedback.networks.load_state_dict(state["auxiliary"])
        if self.feedback.optimiser is not None:
            self.feedback.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"])
        epoch = state.get("epoch", {"calls": 0, "sums": {}})
        self.epoch.calls, self.epoch.sums = epoch["calls"], dict(epoch["sums"])


def rule(
    name: str,
    model: nn.Module,
    *,
    example: Any,
    blocks: str | Sequence[str] | None = None,
    seed: int = 0,
    penalty: float = 0.0,
    control: str = "none",
    loss_fn: LossFunction | None = None,
    tied: Tied | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    **options: Any,
) -> ModelRule:
    """A credit rule bound to a model, which trains in your own loop: `rule.backward` in place of `loss.backward`.

    The parameters of block l get the vector-Jacobian product of h_{l+1} with the rule's credit as cotangent, restricted
    to those parameters; what lies before h_0 gets the credit of h_0, what lies after h_L its exact gradient.

    name      a method: "bp", "dfa", "fa", "fa_weights" and so on, see `creditscope list methods`
    example   one batch (inputs, labels): the blocks are found on it, and it gives the shapes of the feedback
    blocks    path of the block list, or module names; without it the blocks are searched
    seed      of the feedback
    penalty   λ of λ‖f_l(h_l)‖² in every block's local loss
    control   "frozen" or "ladder-k": only embedding and read-out, and the last k blocks, get gradients
    loss_fn   (logits, labels) -> one loss per sample, or their mean; default: cross-entropy
    tied      "embedding" or "readout": by which of the two a weight learns that both of them use
    optimizer the one that steps the model, for rules whose feedback takes the same steps ("kolen_pollack"): it does so
              in `optimizer.step()`, by the gradients as that finds them
    options   of the method, as in normalisation="none"

    >>> import creditscope, torch
    >>> from torch import nn
    >>> layers = [nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)]
    >>> model = nn.Sequential(*layers)
    >>> inputs, labels = torch.linspace(-1, 1, 384).view(64, 6), torch.arange(64) % 3
    >>> rule = creditscope.rule("dfa", model, example=(inputs, labels))
    >>> optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> for step in range(3):
    ...     optimiser.zero_grad()
    ...     loss = rule.backward(inputs, labels)
    ...     optimiser.step()
    >>> rule
    ModelRule('dfa', Sequential, 2 blocks)
    """
    chosen = wrapped(_rule(name, options), penalty=penalty, control=control)
    batch = checked_example(example)
    network = adapted(model, batch.inputs, blocks=blocks, tied=tied)
    if loss_fn is not None:
        network = judged_by(network, loss_fn)
    network = chosen.prepare(network, batch)
    chosen.scope(network)  # refuses a rung that the ladder does not have
    generator = run_generator(seed)
    with undisturbed(network.own):
        if loss_fn is None:
            with torch.no_grad():
                check_labels(batch.labels, network.walk(batch.inputs).logits)
        try:
            feedback = chosen.feedback(network, batch, generator).to(batch.labels.device)
            if optimizer is not None:
                feedback = chosen.equip(feedback, Descent.of(optimizer))
            chosen.credit(network, feedback, batch)  # refuses a model that the rule cannot credit, before any training
        except (RuntimeError, ValueError, IndexError, AttributeError) as error:
            raise ModelMismatch(
                f"The rule {name!r} failed on {network.title}: {type(error).__name__}: {error}\n"
                "It would fail in the first step of the training. Use another rule, or a model with other layers."
            ) from error
    if optimizer is not None and chosen.innermost.follows_weights:
        step_together(optimizer, chosen, network, feedback)
    return ModelRule(chosen, network, feedback, batch, generator, optimizer)


def _rule(name: str, options: Mapping[str, Any]) -> CreditRule:
    entry = methods[name]
    return entry(**filled("method", name, options_of("method", entry), options))


def judged_by(network: StagedNetwork, loss_fn: LossFunction) -> StagedNetwork:
    """The same network, weights shared, with another loss."""
    if not callable(loss_fn):
        raise InvalidInput(
            f"loss_fn is a {type(loss_fn).__name__}, not a function.\n"
            "There would be no loss to descend. Pass a function (logits, labels) -> one loss per sample, or their mean."
        )
    other = copy.copy(network)
    object.__setattr__(other, "loss_fn", loss_fn)  # as a submodule it would become part of the user's model too
    return other


def accumulate(parameter: nn.Parameter, gradient: Tensor) -> None:
    """Add a gradient to .grad as autograd does, in the layout and precision of the parameter."""
    with torch.no_grad():
        if parameter.grad is not None:
            parameter.grad.add_(gradient)
        elif gradient.stride() == parameter.stride() and gradient.dtype == parameter.dtype:
            parameter.grad = gradient.detach()
        else:
            parameter.grad = torch.empty_like(parameter).copy_(gradient)


def checked_example(example: Any) -> Batch:
    """The example as a batch; anything but a pair of inputs and labels is refused."""
    pair = isinstance(example, tuple | list) and len(example) == 2 and isinstance(example[1], Tensor)
    if not pair:
        raise InvalidInput(
            f"example is {_kind(example)}, not one batch (inputs, labels).\n"
            "Blocks and shapes are found by running the model on it. Pass a pair whose second part is the tensor of "
            "labels."
        )
    inputs, labels = example
    if labels.dim() == 0 or len(labels) == 0:
        raise InvalidInput(
            f"The example's labels have the shape {tuple(labels.shape)}, so that there is no sample.\n"
            "No state could be computed. Pass one batch with at least one sample."
        )
    return Batch(inputs, labels)


def check_labels(labels: Tensor, logits: Tensor | None) -> None:
    """Refuse labels that cross-entropy would misread; `logits` of the same batch, where they are known."""
    if not isinstance(labels, Tensor) or labels.dtype not in WHOLE or labels.dim() != 1:
        raise InvalidInput(
            f"The labels are {_kind(labels)}, not class numbers (N,) of an integer type.\n"
            "Cross-entropy would be the loss of another task. Pass class numbers, or loss_fn= (logits, labels) -> one "
            "loss per sample, or their mean."
        )
    if len(labels) == 0:
        raise InvalidInput(
            "The batch holds no label.\nIts mean loss is NaN, and so would be every gradient. Leave empty batches out."
        )
    if logits is not None:
        check_classes(logits, labels)


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of {value.dtype} with shape {tuple(value.shape)}"
    if isinstance(value, tuple | list):
        kinds = [type(part).__name__ for part in value[:3]] + ["..."] * (len(value) > 3)
        return f"a {type(value).__name__} of {', '.join(kinds) or 'nothing'}"
    return f"a {type(value).__name__}"


def _check_tensors(part: str, own: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> None:
    wrong = sorted(
        name for name in own.keys() | given.keys()
        if name not in own or name not in given or own[name].shape != given[name].shape
    )  # fmt: skip
    if wrong:
        raise InvalidInput(
            f"The {part} of the state does not fit this rule and model: {', '.join(wrong[:3])}.\n"
            "Credit would not be the one that trained the network. Bind the same rule to the same architecture."
        )
