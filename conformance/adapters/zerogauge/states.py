# SPDX-License-Identifier: Apache-2.0
"""A run's state: (state, tensors), as ref/model/export/states.h describes the file of it. The program checks every such
file, and computes its digest; what other formats hold becomes such a file first."""
import json
import subprocess

import numpy as np

from zerogauge.command import program

UNSEALED = "0" * 32  # in the place of a digest that is not known yet
TRAINED = ("exp_avg", "exp_avg_sq")


class Refused(ValueError):
    """What is wrong with a checkpoint, for a message."""


def run(path, *arguments):
    """What `zerogauge convert` prints of a state: `step 3, 2 parameters, state DIGEST`."""
    done = subprocess.run([program(), "convert", *map(str, (path, *arguments))], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(done.stderr.strip().removeprefix("zerogauge convert: ") or f"{program()} ended by itself")
    return done.stdout.strip().rpartition(": ")[2]


def read(path):
    """The state of a file that the program has checked; the arrays read the file when they are used."""
    run(path)
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        start = file.tell()
    state, tensors = json.loads(header.pop("__metadata__")["state"]), {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = np.memmap(path, "<f4", "r", start + begin, ((end - begin) // 4,)).reshape(entry["shape"]) \
            if end > begin else np.zeros(entry["shape"], np.float32)
    return state, tensors


def write(path, state, tensors):
    """Writes the file, and returns what the program says of it. Raises Refused for what the program does not accept."""
    header, offset = {}, 0
    for name, array in sorted(tensors.items()):
        if array.dtype != np.float32:
            raise Refused(f"{name} is in {array.dtype}, expected fp32")
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    metadata = {"format": "zerogauge states", "version": "1", "digest": UNSEALED, "state": json.dumps(state)}
    text = json.dumps({"__metadata__": metadata, **header}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("xb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, array in sorted(tensors.items()):
            file.write(np.ascontiguousarray(array, "<f4").tobytes())
    said = run(path, "--unsealed")
    with path.open("r+b") as file:
        file.seek(8 + text.index(UNSEALED.encode()))
        file.write(said[-len(UNSEALED):].encode())
    return said


def new(step, skipped=0, **values):
    return {"precision": "fp32", "step": step, "skipped": skipped, "schedule": None, "scaler": None, "groups": [],
            "parameters": {}, "tied": {}, "origin": None, **values}


def add(state, tensors, name, values, group=None, t=None):
    """A parameter: values by state, of one shape; those of `param` alone if it has no moments."""
    shapes = {key: list(array.shape) for key, array in values.items()}
    for key, shape in shapes.items():
        if shape != shapes["param"]:
            raise Refused(f"{key} of {name} has the shape {shape}, its parameter {shapes['param']}")
        tensors[f"{key}/{name}"] = values[key]
    if len(values) == 2 or (t is None) != (len(values) == 1):
        raise Refused(f"{name}: exp_avg, exp_avg_sq and step belong together, and one of them is missing; none is taken "
                      "to be zero")
    state["parameters"][name] = {"shape": shapes["param"], "group": group, "t": t}


def whole(value, what):
    """A count of steps, which formats keep as integers, floats and tensors."""
    number = float(value)
    if number < 0 or number != int(number):
        raise Refused(f"{what} is {number:g}, expected a count of steps")
    return int(number)


def settings(group):
    """A group's settings as JSON has them; tensors become numbers."""
    plain = {key: value.item() if hasattr(value, "item") else list(value) if isinstance(value, tuple) else value
             for key, value in group.items() if key not in ("params", "param_names")}
    try:
        return json.loads(json.dumps(plain, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise Refused(f"a group's settings {sorted(plain)}: {error}") from error


def kept(state, *keys):
    """What a format has no place for, as JSON, and which settings each group had."""
    return json.dumps({key: state[key] for key in ("step", *keys)} |
                      {"settings": [sorted(group) for group in state["groups"]]}, sort_keys=True)


def restore(state, text):
    """Puts back what `kept` kept, unless the run has gone on since."""
    if text is None:
        return
    values = json.loads(text)
    names = values.pop("settings")
    if state["step"] not in (values["step"], None) or len(names) != len(state["groups"]):
        return
    state.update(values)
    state["groups"] = [{key: group[key] for key in keys if key in group}
                       for group, keys in zip(state["groups"], names, strict=True)]
