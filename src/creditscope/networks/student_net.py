"""The student of the synthetic teacher-student task: no normalisation, activation from linear to saturating."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from creditscope.networks import network
from creditscope.networks.options import depth_of, features, whole, within
from creditscope.networks.staged import StagedNetwork, initialise


class StudentBlock(nn.Module):
    """f(h) = (1 - α)z + α·tanh z,  z = w(h): unbounded at α = 0, at most √d long at α = 1."""

    def __init__(self, d: int, alpha: float) -> None:
        super().__init__()
        self.alpha = alpha
        self.w = nn.Linear(d, d)

    def forward(self, state: Tensor) -> Tensor:
        """The residual branch, or in a plain network the next state."""
        z: Tensor = self.w(state)
        return (1 - self.alpha) * z + self.alpha * torch.tanh(z)


@network(
    "student_net", summary="Teacher-student MLP without normalisation: Linear | L x (Linear, activation) | Linear."
)
class StudentNet(StagedNetwork):
    """embed Linear | L x (Linear, activation) | Linear; nothing normalises the stream.

    inputs     features of one flattened sample, or its shape
    d, depth   width of the stream and number of blocks L; studied at L = 2, 4, 8, 12
    alpha      α of the activation, from 0 (a linear network) to 1 (tanh); studied at 0, 0.25, 0.5, 1
    residual   True (our choice, since the stream is audited): h_{l+1} = h_l + f_l; False: h_{l+1} = f_l
    """

    def __init__(
        self,
        inputs: int | tuple[int, ...] = 128,
        classes: int = 10,
        *,
        d: int = 128,
        depth: int = 4,
        alpha: float = 1.0,
        residual: bool = True,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.residual = residual
        whole("d", d, 1)
        within("alpha", alpha, 0.0, 1.0)
        self.embed = nn.Linear(features(inputs), d)
        self.blocks = nn.ModuleList(StudentBlock(d, alpha) for _ in range(depth_of(depth)))
        self.head = nn.Linear(d, classes)
        initialise(self, generator)

    def embedding(self, inputs: Tensor) -> Tensor:
        """Linear on the flattened sample."""
        out: Tensor = self.embed(inputs.flatten(1))
        return out

    def readout(self, state: Tensor) -> Tensor:
        """The head alone."""
        out: Tensor = self.head(state)
        return out
