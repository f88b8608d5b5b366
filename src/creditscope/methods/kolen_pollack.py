"""Kolen-Pollack: the feedback learns by the same updates as the weights, so that decay makes both equal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.errors import InvalidInput
from creditscope.methods import method
from creditscope.methods.descent import Descent
from creditscope.methods.learnt import LearntFeedback, matrices
from creditscope.methods.rule import EVERYTHING, Feedback, Moment, Scope
from creditscope.networks.staged import StagedNetwork


@method(
    "kolen_pollack",
    summary="Kolen-Pollack: inside every Linear and Conv2d a feedback matrix learns by the updates of its weight.",
    formula="y = x Wᵀ;  ∂ℓ/∂x := (∂ℓ/∂y) B,  ∂ℓ/∂W = (∂ℓ/∂y)ᵀ x;  B takes the steps of W, decay included",
    feedback="B_0 (the shape of W) ~ N(0, 1)/√fan_out for every Linear and Conv2d on the way back; then learnt",
    paper="Kolen and Pollack (1994); Akrout et al. (2019)",
    identities={
        "B_t - W_t = Π_s (1 - η_s λ) (B_0 - W_0), to 1e-12 in float64, under SGD and AdamW": (
            "tests/methods/test_kolen_pollack.py::test_the_difference_from_the_weights_shrinks_by_the_decay_of_every_step"
        ),
        "once B = W it stays backprop": (
            "tests/methods/test_kolen_pollack.py::test_once_equal_to_the_weights_it_stays_backprop"
        ),
    },
    fails="Without weight decay B - W never shrinks. With a small ηλ it shrinks slowly, so that a short run is "
    "trained by feedback that is still mostly random: read the angles in the history.",
)
@dataclass(frozen=True)
class KolenPollack(LearntFeedback):
    """B gets the gradient of W, in the same optimiser with the same settings and decay λ.

        B_t - W_t = Π_s (1 - η_s λ) (B_0 - W_0)

    under SGD and AdamW. Without decay the difference never shrinks: λ = 0 is refused unless `without_decay` asks for
    it. Where a weight is frozen its B stays too. `scale` multiplies B_0.
    """

    without_decay: bool = False
    scale: float = 1.0

    follows_weights = True

    def equip(self, feedback: Feedback, descent: Descent) -> Feedback:
        """B in an optimiser like the network's."""
        if not descent.weight_decay > 0 and not self.without_decay:
            raise InvalidInput(
                "The weight decay is 0.\n"
                "B - W would then keep its first value for ever, and their angle would fall only because the weights "
                "grow. Train with weight decay, or set without_decay to see just that."
            )
        return replace(feedback, optimiser=descent.optimiser(matrices(feedback).parameters()))

    def learn(
        self, network: StagedNetwork, feedback: Feedback, batch: Batch, moment: Moment, scope: Scope = EVERYTHING
    ) -> Credit:
        """The credit, and then the step of B, unless it is deferred; the caller takes the same step with W."""
        if feedback.optimiser is None or moment.descent is None:
            raise InvalidInput(
                "Kolen-Pollack was not told how the network's weights step.\n"
                "B would not take the same steps, and would not approach W. Pass optimizer= to creditscope.rule; in "
                "code of your own call `equip` with its settings before the first step, and pass them in every moment."
            )
        credit = self.credit(network, feedback, batch, scope)
        if not moment.deferred:
            self.follow(feedback, moment.descent, credit.gradients)
        return credit

    def follow(self, feedback: Feedback, descent: Descent, gradients: Mapping[str, Tensor]) -> None:
        """One step of every B by the gradient of its W; where W has none, B stays."""
        if feedback.optimiser is not None:
            learnt = matrices(feedback).by_weight().items()
            descent.step(feedback.optimiser, [(matrix, gradients.get(name)) for name, matrix in learnt])
