# SPDX-License-Identifier: Apache-2.0
"""Reads and writes safetensors files with numpy. bfloat16, which numpy lacks, is a structure of its 16 bits: BF16."""
import json

import numpy as np

BF16 = np.dtype([("bf16", "<u2")])
DTYPES = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": BF16, "I64": np.dtype("<i8")}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def read(path):
    """{name: array}; the arrays are writable."""
    data = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            part = np.frombuffer(data, np.uint8)[start + begin:start + end]
            tensors[name] = part.view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def write(path, tensors):
    """The widest elements first, so that all are aligned."""
    header, parts, offset = {}, [], 0
    for name, array in sorted(tensors.items(), key=lambda item: -np.asarray(item[1]).dtype.itemsize):
        array = np.asarray(array)
        part = array.tobytes()
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape),
                        "data_offsets": [offset, offset + len(part)]}
        parts.append(part)
        offset += len(part)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def widened(array):
    """The same values in fp32."""
    if array.dtype == BF16:
        return (array["bf16"].astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32)


def rounded(array, precision):
    """An fp32 array in fp32, fp16 or bf16, rounded to nearest, ties to even."""
    if precision != "bf16":
        return array.astype(DTYPES["F16" if precision == "fp16" else "F32"])
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    nan = (bits & 0x7fffffff) > 0x7f800000
    upper = np.where(nan, bits | 0x400000, bits + 0x7fff + (bits >> 16 & 1)) >> 16
    return upper.astype(np.uint16).view(BF16).reshape(array.shape)
