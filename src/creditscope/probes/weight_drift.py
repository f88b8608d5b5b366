"""Weight drift: the distance of the weights of every stage from their initial values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.errors import InvalidInput
from creditscope.evidence.credit import Layers


def weight_drift(model: nn.Module, initial: Any, blocks: Sequence[nn.Module]) -> Layers:
    """‖W - W_init‖_F/‖W_init‖_F of the embedding, of every block, and of the read-out."""
    own = dict(model.named_parameters())
    given = initial_weights(model, initial)
    changes, sizes = [0.0] * (len(blocks) + 2), [0.0] * (len(blocks) + 2)
    for name, stage in parameter_stages(model, blocks).items():
        start = given[name].detach().to(own[name].device, torch.float64)
        changes[stage] += (own[name].detach().double() - start).square().sum().item()
        sizes[stage] += start.square().sum().item()
    return tuple((a / b) ** 0.5 if b else float("nan") for a, b in zip(changes, sizes, strict=True))


def parameter_stages(model: nn.Module, blocks: Sequence[nn.Module]) -> dict[str, int]:
    """The stage of every parameter: 0 the embedding, l + 1 block l, L + 1 the read-out.

    Parameters before those of the first block belong to the embedding; later ones outside all blocks to the read-out.
    """
    where = {id(p): index for index, block in enumerate(blocks, 1) for p in block.parameters()}
    stage, stages = 0, {}
    for name, parameter in model.named_parameters():
        stage = where.get(id(parameter), len(blocks) + 1 if stage else 0)
        stages[name] = stage
    return stages


def initial_weights(model: nn.Module, initial: Any) -> Mapping[str, Tensor]:
    """The parameters before training by name, once it is certain that they are those of this model."""
    given = _state(initial)
    own = dict(model.named_parameters())
    missing = [name for name, p in own.items() if name not in given or given[name].shape != p.shape]
    if missing:
        raise InvalidInput(
            f"initial= lacks or misshapes {len(missing)} of the model's {len(own)} parameters: "
            f"{', '.join(missing[:8])}.\n"
            "Drift would be that of another network. Pass the model, or its state_dict(), as it was before training."
        )
    return given


def _state(initial: Any) -> Mapping[str, Tensor]:
    if isinstance(initial, nn.Module):
        return dict(initial.named_parameters())
    if isinstance(initial, Mapping) and all(isinstance(value, Tensor) for value in initial.values()):
        return initial
    raise InvalidInput(
        f"initial is a {type(initial).__name__}, neither a network nor its state_dict().\n"
        "There are no weights to compare with. Pass the network as it was before training."
    )
