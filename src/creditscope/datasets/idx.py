"""The idx format of MNIST and its kin."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from creditscope.datasets.cache import Checksum
from creditscope.errors import BadFile


def read_idx(path: Path, expected: Checksum) -> Tensor:
    """One idx file of bytes, plain or gzipped, whose content has the expected checksum.

    Two zeros, type 8, the number of axes, each length as four bytes, then the values.
    """
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as reason:
        raise BadFile(f"{path} cannot be unpacked: {reason}.\nIt is damaged. Delete it and run again.") from reason
    expected.check(content, path)
    axes = content[3]
    lengths = np.frombuffer(content, dtype=">u4", count=axes, offset=4)
    values = np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * axes)
    return torch.from_numpy(values.reshape(lengths).copy())
