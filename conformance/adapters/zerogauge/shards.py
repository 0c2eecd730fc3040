# SPDX-License-Identifier: Apache-2.0
"""Makes full tensors of the parts that ranks hold."""
from dataclasses import dataclass
from typing import Any

import numpy as np

from zerogauge.tensors import widened


@dataclass
class Shard:
    """Consecutive elements of a flattened tensor; on a mesh, of the part of it that this rank holds."""

    values: Any  # a tensor of any shape
    offset: int  # of its first element, in elements of that tensor; what lies beyond its end is padding


def merged(case, ranks):
    """{name: full fp32 array}. ranks: by rank, {name: list of (offset, array)}; offset None: the array is whole."""
    shapes = {p["name"]: p["shape"] for p in case.params}
    tensors = {}
    for name in {name: None for rank in ranks for name in rank}:
        shape = shapes[name.partition("/")[2]]
        flat, known = np.zeros(shape, np.float32).reshape(-1), np.zeros(int(np.prod(shape)), bool)
        elements = np.arange(flat.size).reshape(shape)
        for rank, offset, part in ((rank, *part) for rank, parts in enumerate(ranks) for part in parts.get(name, [])):
            own = elements if offset is None else case.mesh.part(name.partition("/")[2], elements, rank)
            own = own.reshape(-1)[offset or 0:][:part.size]
            flat[own] = widened(part).reshape(-1)[:own.size]
            known[own] = True
        if not known.all():
            raise ValueError(f"{name}: no rank holds {np.count_nonzero(~known)} of its {flat.size} elements, the first "
                             f"of which is {np.argmin(known)}")
        tensors[name] = flat.reshape(shape)
    return tensors
