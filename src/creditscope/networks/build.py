"""Networks by name, drawn from a seed that fixes every bit of them."""

from __future__ import annotations

import hashlib

import torch

from creditscope.networks import networks
from creditscope.networks.options import whole
from creditscope.networks.sizes import check_size
from creditscope.networks.staged import StagedNetwork
from creditscope.options import Option, filled, options_of


def network_options(name: str) -> dict[str, Option]:
    """Every option of a registered network, with its default."""
    return options_of("network", networks[name])


def build(name: str, inputs: int | tuple[int, ...], classes: int, seed: int, **options: Option) -> StagedNetwork:
    """The network called `name`, drawn from `seed` on the CPU; `package.module:factory` gives a model of any kind.

    inputs    shape of one sample, or its number of features
    options   keyword options of the network's class; an unknown one is an error
    """
    given = filled("network", name, network_options(name), options)
    whole("classes", classes, 2)
    shape = inputs if isinstance(inputs, int) else tuple(inputs)
    check_size(name, shape, classes, given)
    built: StagedNetwork = networks[name](shape, classes, **given, generator=weight_generator(seed))
    return built


def weight_generator(seed: int) -> torch.Generator:
    """The generator of a network's weights, a stream of its own for every seed.

    Seeded with the bare seed it would repeat the numbers of whatever else the seed starts: weights and data, or
    weights and feedback, would be correlated (inputs drawn so gave median ‖h_0‖ = 10.5 in place of 9.2).
    """
    digest = hashlib.sha256(f"weights {whole('seed', seed, 0)}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:4], "big"))  # PyTorch's CPU engine keeps 32 bits
