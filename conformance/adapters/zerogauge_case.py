# SPDX-License-Identifier: Apache-2.0
"""Reads a case, and writes the answer to it (../CONTRACT.md)."""
import json

import torch
from safetensors.torch import load_file, save_file

MOMENTS = ("exp_avg", "exp_avg_sq")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Unsupported(Exception):
    """The implementation cannot run the case."""


class Case:
    """The keys of case.json as attributes (world, params, loss_scale, ...), and the case's files."""

    def __init__(self, folder, answer, state, rank):
        self.__dict__.update(json.loads((folder / "case.json").read_text()))
        self.folder, self.answer, self.rank, self.dtype = folder, answer, rank, DTYPES[self.precision]
        phase, at = (self.checkpoint["phase"], self.checkpoint["step"]) if self.checkpoint else (None, 0)
        shared = state and state / self.name.removesuffix(f".{phase}")
        self.save, self.resume = (shared if phase == name else None for name in ("save", "resume"))
        self.own_steps = range(at + 1 if self.resume else 1, (at if self.save else self.steps) + 1)
        trained = [p for p in self.params if not p["tied_to"] and not p["frozen"]]
        self.trained = [p["name"] for p in sorted(trained, key=lambda p: p["group"])]  # the optimizer's order
        answer.mkdir(parents=True, exist_ok=True)

    def initial(self):
        return load_file(self.folder / "init.safetensors")

    def gradients(self, step):
        """This rank's gradients: a list by micro-step of {name: tensor}, in the case's precision."""
        every = load_file(self.folder / f"grads-{step}.safetensors")
        prefixes = [f"m{micro}/r{self.rank}/" for micro in range(self.accumulation)]
        return [{name[len(prefix):]: g for name, g in every.items() if name.startswith(prefix)} for prefix in prefixes]

    def lr(self, index, step):
        lr = self.groups[index]["lr"]
        return lr[step - 1] if isinstance(lr, list) else lr

    def hyper_parameters(self, index):
        return {"lr": self.lr(index, 1), **{key: self.groups[index][key] for key in ("betas", "eps", "weight_decay")}}

    def optimizer_groups(self, by_name, decoupled):
        """Parameter groups for torch.optim. `index` is the group's index in the case; the key called `decoupled` is
        true for AdamW."""
        members = [[by_name[p["name"]] for p in self.params if p["name"] in self.trained and p["group"] == index]
                   for index in range(len(self.groups))]
        return [{"params": m, "index": i, decoupled: self.groups[i]["optimizer"] == "AdamW", **self.hyper_parameters(i)}
                for i, m in enumerate(members) if m]

    def write_seen(self, step, seen):
        """Writes the parameters that each forward of a step used on this rank: by micro-step, {name: parameter}."""
        tensors = {f"m{micro}/{name}": tensor for micro, part in enumerate(seen) for name, tensor in part.items()}
        folder = self.answer / f"rank-{self.rank}"
        folder.mkdir(exist_ok=True)
        save_file(tensors, folder / f"step-{step}.safetensors")

    def write_step(self, step, tensors, t, skipped=False, scale=None, norm=None):
        """Writes the state after a step, on rank 0: {"param/NAME": full tensor, "exp_avg/NAME": ..., ...}, t, and what
        else the case requires."""
        if self.rank != 0:
            return
        zeros = {f"{kind}/{p['name']}": torch.zeros(p["shape"]) for kind in MOMENTS
                 for p in self.params if p["name"] in self.trained and p["used"]}  # before the first applied step
        tensors = {**zeros, **tensors, "t": torch.tensor(int(t))}
        if self.overflow_check:
            tensors["skipped"] = torch.tensor(int(skipped))
        if self.loss_scale["kind"] != "none":
            tensors["loss_scale"] = torch.tensor(float(scale))
        if norm is not None and not skipped:
            tensors["norm"] = torch.tensor(float(norm))
        tensors = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
        save_file(tensors, self.answer / f"step-{step}.safetensors")
