# SPDX-License-Identifier: Apache-2.0
"""Reads a case, and writes the answer to it (CONTRACT.md of the conformance suite). Tensors are numpy's."""
import json

import numpy as np

from zerogauge import tensors as files
from zerogauge.mesh import Mesh

MOMENTS = ("exp_avg", "exp_avg_sq")


class Unsupported(Exception):
    """The implementation cannot run the case."""


class Case:
    """The keys of case.json as attributes (world, params, loss_scale, ...), and the case's files. `mesh` is a Mesh."""

    def __init__(self, folder, answer, state, rank):
        self.__dict__.update(json.loads((folder / "case.json").read_text()))
        self.folder, self.answer, self.rank = folder, answer, rank
        self.tokens = self.__dict__.get("tokens")  # [step - 1][micro][rank], or None
        self.mesh = Mesh(self, self.__dict__.get("mesh"))
        phase, at = (self.checkpoint["phase"], self.checkpoint["step"]) if self.checkpoint else (None, 0)
        shared = state and state / self.name.removesuffix(f".{phase}")
        self.save, self.resume = (shared if phase == name else None for name in ("save", "resume"))
        self.own_steps = range(at + 1 if self.resume else 1, (at if self.save else self.steps) + 1)
        self.owner = {p["name"]: p["tied_to"] or p["name"] for p in self.params}
        trained = [p for p in self.params if not p["tied_to"] and not p["frozen"]]
        self.trained = [p["name"] for p in sorted(trained, key=lambda p: p["group"])]  # the optimizer's order
        self.used = {p["name"] for p in self.params if p["used"]}
        self.left_out = {(p["name"], *pair) for p in self.params for pair in p.get("unused_in") or []}
        self.uses_all = len(self.used) == len(self.params) and not self.left_out  # in every micro-step
        self.group_of = {p["name"]: self.groups[p["group"]] for p in self.params}
        answer.mkdir(parents=True, exist_ok=True)

    def initial(self):
        """{name: fp32 array}, without tied parameters."""
        return files.read(self.folder / "init.safetensors")

    def initial_parts(self):
        """What this rank holds of them."""
        return {name: np.asarray(self.mesh.part(name, array, self.rank), order="C")
                for name, array in self.initial().items() if self.mesh.holds(name, self.rank)}

    def gradients(self, step, rank=None):
        """A rank's gradients, this one's unless said: a list by micro-step of {name: array}, in the case's precision."""
        rank = self.rank if rank is None else rank
        every = files.read(self.folder / f"grads-{step}.safetensors")
        prefixes = [f"m{micro}/r{rank}/" for micro in range(self.micro_steps(step))]
        return [{name[len(prefix):]: g for name, g in every.items() if name.startswith(prefix)} for prefix in prefixes]

    def micro_steps(self, step):
        """The micro-steps of a step: `accumulation`, but for steps of fewer counts of tokens."""
        return len(self.tokens[step - 1]) if self.tokens else self.accumulation

    def token_count(self, step, micro, rank=None):
        """The tokens of a rank, this one's unless said, in a micro-step, whose gradients are sums over them."""
        return self.tokens[step - 1][micro][self.rank if rank is None else rank]

    def all_tokens(self, step):
        """The tokens of all ranks and micro-steps of a step, those of ranks with the same data once."""
        first = [rank for rank in range(self.world)
                 if self.mesh.coordinates(rank)["tensor"] == 0 == self.mesh.coordinates(rank)["pipeline"]]
        return sum(counts[rank] for counts in self.tokens[step - 1] for rank in first)

    def loss_weight(self, step):
        """What a loss is multiplied by where ranks are averaged and micro-steps are summed."""
        if not self.tokens:
            return self.mesh.sequence / self.accumulation
        return self.world // self.mesh.tensor // self.mesh.pipeline / max(self.all_tokens(step), 1)

    def uses(self, name, step, micro):
        """Whether the loss of a micro-step uses a parameter."""
        return (name, step, micro) not in self.left_out and name in self.used

    def moments_of(self, name):
        return ("momentum",) if self.group_of[name]["optimizer"] == "Muon" else MOMENTS

    def common(self, key):
        """A setting of the groups, for a trainer that has one for all of them; where theirs differ, it declines the case."""
        values = [group.get(key) for group in self.groups]
        other = next((index for index, value in enumerate(values) if value != values[0]), None)
        if other is not None:
            raise Unsupported(f"group 0 has {key} {values[0]} and group {other} {values[other]}; the trainer has one for all")
        return values[0]

    def lr(self, index, step):
        lr = self.groups[index]["lr"]
        return lr[step - 1] if isinstance(lr, list) else lr

    def write_seen(self, step, seen, rank=None):
        """Writes the parameters that each forward of a step used on a rank: by micro-step, {name: array}."""
        rank = self.rank if rank is None else rank
        tensors = {f"m{micro}/{name}": array for micro, part in enumerate(seen) for name, array in part.items()}
        folder = self.answer / f"rank-{rank}"
        folder.mkdir(exist_ok=True)
        files.write(folder / f"step-{step}.safetensors", tensors)

    def write_step(self, step, tensors, t, skipped=False, scale=None, norm=None, loss=None):
        """Writes the state after a step, on rank 0: {"param/NAME": full array, "exp_avg/NAME": ..., ...}, which may be of
        16 bits, t, and what else the case requires. A norm that is used in double is a np.float64; others are rounded to
        fp32. loss: as it is logged, of all ranks; only in cases with tokens."""
        if self.rank != 0:
            return
        zeros = {f"{kind}/{p['name']}": np.zeros(p["shape"], np.float32) for p in self.params
                 for kind in self.moments_of(p["name"]) if p["name"] in self.trained and p["used"]}  # before step 1
        tensors = {**zeros, **{name: files.widened(array) for name, array in tensors.items()}, "t": np.int64(t)}
        if self.overflow_check:
            tensors["skipped"] = np.int64(skipped)
        if self.loss_scale["kind"] != "none":
            tensors["loss_scale"] = np.float32(scale)
        if norm is not None and not skipped:
            tensors["norm"] = norm if isinstance(norm, np.float64) else np.float32(norm)
        if loss is not None and self.tokens:
            tensors["loss"] = np.float64(loss)
        files.write(self.answer / f"step-{step}.safetensors", tensors)
