# SPDX-License-Identifier: Apache-2.0
"""Makes full tensors of the parts that ranks hold."""
from dataclasses import dataclass
from typing import Any

import numpy as np

from zerogauge.tensors import widened


@dataclass
class Shard:
    """Consecutive elements of a flattened tensor."""

    values: Any  # a tensor of any shape
    offset: int  # of its first element, in elements of the whole tensor; what lies beyond its end is padding


def merged(case, ranks):
    """{name: full fp32 array}. ranks: by rank, {name: list of (offset, array)}; offset None: the array is whole."""
    shapes = {p["name"]: p["shape"] for p in case.params}
    tensors = {}
    for name in {name: None for rank in ranks for name in rank}:
        shape = shapes[name.partition("/")[2]]
        flat, known = np.zeros(shape, np.float32).reshape(-1), np.zeros(int(np.prod(shape)), bool)
        for offset, part in (part for rank in ranks for part in rank.get(name, [])):
            values = widened(part).reshape(-1)[:flat.size - (offset or 0)]
            flat[offset or 0:][:values.size] = values
            known[offset or 0:][:values.size] = True
        if not known.all():
            raise ValueError(f"{name}: no rank holds {np.count_nonzero(~known)} of its {flat.size} elements, the first "
                             f"of which is {np.argmin(known)}")
        tensors[name] = flat.reshape(shape)
    return tensors
