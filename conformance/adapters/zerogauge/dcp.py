# SPDX-License-Identifier: Apache-2.0
"""PyTorch's distributed checkpoints of torch.distributed.checkpoint.state_dict: the entries MODEL.NAME, OPTIM.state.NAME.*
and OPTIM.param_groups.*, nested or flattened, under any names MODEL and OPTIM. `.metadata` is a pickle: it is read by a
list of the classes that PyTorch writes there, none of which is run."""
import io
import json
import pickle
import re

import numpy as np
import torch

from zerogauge.states import TRAINED, Refused, add, kept, new, restore, settings, whole
from zerogauge.universal import unpickled

KEPT = "zerogauge"  # an entry with what has no other place
# PyTorch asks a checkpoint for all settings of its own optimizer.
DEFAULTS = {"amsgrad": False, "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
            "fused": None, "decoupled_weight_decay": True}


class _Record:
    """An object of .metadata: its attributes, and no behaviour."""

    def __init__(self, *values):
        self.values = values

    def __setstate__(self, state):
        if isinstance(state, dict):
            vars(self).update(state)


CLASSES = {"torch.distributed.checkpoint.metadata": {"Metadata", "TensorStorageMetadata", "TensorProperties", "MetadataIndex",
                                                     "ChunkStorageMetadata", "BytesStorageMetadata", "StorageMeta",
                                                     "_MEM_FORMAT_ENCODING"},
           "torch.distributed.checkpoint.filesystem": {"_StorageInfo"}, "torch.serialization": {"_get_layout"},
           "torch": {"float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"},
           "pathlib": {"PosixPath", "PurePosixPath"}, "pathlib._local": {"PosixPath"}}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) == ("torch", "Size"):
            return tuple
        if name not in CLASSES.get(module, ()):
            raise Refused(f"names the class {module}.{name}, which no checkpoint of PyTorch has there; it is not loaded")
        return type(name, (_Record,), {})


class Entries:
    def __init__(self, folder):
        self.folder, path = folder, folder / ".metadata"
        try:
            with path.open("rb") as file:
                found = _Unpickler(file).load()
            self.metadata = found.state_dict_metadata
            self.places = {(index.fqn, getattr(index, "offset", None)): at for index, at in found.storage_data.items()}
        except Exception as error:  # a damaged pickle fails in many ways
            why = error if isinstance(error, Refused) else f"is not the metadata of a checkpoint: {error!r}"
            raise Refused(f"{path}: {why}") from error

    def is_tensor(self, key):
        return hasattr(self.metadata[key], "chunks")

    def load(self, key, offset=None):
        where = self.places.get((key, offset))
        if where is None:
            raise Refused(f"{self.folder}: {key} has no data at {offset}; none is taken to be zero")
        path = self.folder / where.relative_path
        if "/" in where.relative_path or ".." in where.relative_path or getattr(where, "transform_descriptors", None):
            raise Refused(f"{self.folder}: {key} is in \"{where.relative_path}\", expected a plain file of the folder")
        with path.open("rb") as file:
            file.seek(where.offset)
            data = file.read(where.length)
        if len(data) != where.length:
            raise Refused(f"{path}: is truncated: {key} ends beyond its end")
        return unpickled(io.BytesIO(data), f"{path}: {key}")

    def array(self, key, masters=()):
        """A whole tensor; each of its elements must be there once. masters: keys of what the step is made in."""
        row = self.metadata[key]
        full, held = np.empty(row.size, np.float32), np.zeros(row.size, np.uint8)
        for chunk in row.chunks:
            part = self.load(key, chunk.offsets)
            if part.dtype not in (torch.float32, torch.bfloat16, torch.float16) or tuple(part.shape) != chunk.sizes:
                raise Refused(f"{self.folder}: {key}: a part is {list(part.shape)} in {part.dtype}, expected "
                              f"{list(chunk.sizes)} in fp32")
            if part.dtype != torch.float32 and (".exp_avg" in key or key in masters):
                raise Refused(f"{self.folder}: {key} is in {part.dtype}, expected fp32, in which the step is made")
            place = tuple(slice(at, at + size) for at, size in zip(chunk.offsets, chunk.sizes, strict=True))
            full[place] = part.float().numpy()
            held[place] += 1
        if not (held == 1).all():
            raise Refused(f"{self.folder}: {key}: {np.count_nonzero(held == 0)} of its {held.size} elements are missing, "
                          f"{np.count_nonzero(held > 1)} are there twice; none is taken to be zero")
        return full


def groups_of(entries, root):
    """The groups' settings, each with `params`."""
    rows, keys = {}, [key for key in entries.metadata if key.startswith(f"{root}param_groups")]
    nested = f"{root}param_groups.0.params" in entries.metadata
    for key in keys:
        name, _, setting = key.removeprefix(f"{root}param_groups.").rpartition(".")
        rows.setdefault(int(name) if nested else name, {})[setting] = \
            entries.array(key).item() if entries.is_tensor(key) else entries.load(key)
    if nested:
        return [rows[index] for index in sorted(rows)]
    same = {}
    for name, row in rows.items():
        same.setdefault(json.dumps(settings(row), sort_keys=True), {**row, "params": []})["params"].append(name)
    return list(same.values())


def read(path):
    entries, states = Entries(path), {}
    keys = list(entries.metadata)
    roots = [match[1] for match in (re.fullmatch(r"((?:.*?\.)?)state\..+\.exp_avg", key) for key in keys) if match]
    if not roots:
        raise Refused(f"{path}: is no checkpoint that a run could continue from: it has no optimizer's states; weights "
                      "alone are an export")
    root = roots[0]
    for key in keys:
        if key.startswith(f"{root}state."):
            name, _, kind = key.removeprefix(f"{root}state.").rpartition(".")
            states.setdefault(name, set()).add(kind)
    groups = groups_of(entries, root)
    others = [key for key in keys if not key.startswith((f"{root}state.", f"{root}param_groups"))]
    owner = {name: index for index, group in enumerate(groups) for name in group.get("params", [])}
    for name, held in states.items():
        if name not in owner:
            raise Refused(f"{path}: {root}state.{name} belongs to no group of settings")
        if not held <= {*TRAINED, "step"}:
            raise Refused(f"{path}: {root}state.{name} has {sorted(held - {*TRAINED, 'step'})}, which is not part of Adam")
    first = next(iter(owner))
    model = min((key[:-len(first)] for key in others if key.endswith(first) and
                 all(key[:-len(first)] + name in entries.metadata for name in owner)), key=len, default=None)
    if model is None:
        raise Refused(f"{path}: not all parameters of the groups are in it, such as {first}")
    state, tensors = new(None, groups=[settings(group) for group in groups]), {}
    masters = {model + name for name in owner}
    for key in [key for key in others if key.startswith(model) and entries.is_tensor(key)]:
        name, others = key.removeprefix(model), [other for other in others if other != key]
        held = states.get(name, set())
        values = {"param": entries.array(key, masters), **{s: entries.array(f"{root}state.{name}.{s}") for s in TRAINED if s in held}}
        t = whole(entries.array(f"{root}state.{name}.step"), f"{root}state.{name}.step") if "step" in held else None
        add(state, tensors, name, values, owner.get(name), t)
    restore(state, entries.load(KEPT) if KEPT in others else None)
    if state["step"] is None:
        state["step"] = max(row["t"] or 0 for row in state["parameters"].values())
        counted = [key for key in others if key.endswith(".last_epoch") and not entries.is_tensor(key)]
        state["schedule"] = whole(entries.load(counted[0]), counted[0]) if counted else None
    for alias in state["tied"]:
        state["parameters"].pop(alias, None), tensors.pop(f"param/{alias}", None)
    left = sorted({key.partition(".")[0] for key in others if key != KEPT})
    return state, tensors, [f"stays behind, because it is not part of a state: {', '.join(left)}"] if left else []


def write(path, state, tensors):
    import torch.distributed.checkpoint as dcp
    tensor = {key: torch.from_numpy(array.copy()) for key, array in tensors.items()}
    names = {name: [other for other, target in state["tied"].items() if target == name] for name in state["parameters"]}
    dcp.save({
        "model": {other: tensor[f"param/{name}"] for name, tied in names.items() for other in (name, *tied)},
        "optim": {"state": {name: {"step": torch.tensor(float(row["t"])),
                                   **{key: tensor[f"{key}/{name}"] for key in TRAINED}}
                            for name, row in state["parameters"].items() if row["t"] is not None},
                  "param_groups": [{**DEFAULTS, **group, "betas": tuple(group["betas"]),
                                    "params": [name for name, row in state["parameters"].items() if row["group"] == index]}
                                   for index, group in enumerate(state["groups"])]},
        KEPT: kept(state, "skipped", "schedule", "scaler", "precision", "tied", "origin")},
        checkpoint_id=path, no_dist=True)
