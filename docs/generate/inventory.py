"""Writes docs/inventories/torch.inv: where PyTorch documents the types in our signatures, so that no build asks it."""

from __future__ import annotations

import zlib
from pathlib import Path

PATH = Path(__file__).resolve().parents[1] / "inventories" / "torch.inv"
CLASSES = {
    "torch.Tensor": "tensors.html#torch.Tensor",
    "torch.Generator": "generated/torch.Generator.html#torch.Generator",
    "torch.device": "tensor_attributes.html#torch.device",
    "torch.nn.Module": "generated/torch.nn.Module.html#torch.nn.Module",
    "torch.optim.Optimizer": "optim.html#torch.optim.Optimizer",
    "torch.utils.data.DataLoader": "data.html#torch.utils.data.DataLoader",
}


def inventory() -> bytes:
    """Version 2 of Sphinx's format: four lines of text, then one compressed line per name."""
    header = (
        "# Sphinx inventory version 2\n# Project: PyTorch\n# Version: \n# The remainder is compressed using zlib.\n"
    )
    lines = "".join(f"{name} py:class 1 {place} -\n" for name, place in CLASSES.items())
    return header.encode() + zlib.compress(lines.encode(), 9)


if __name__ == "__main__":
    PATH.write_bytes(inventory())
    print(PATH)
