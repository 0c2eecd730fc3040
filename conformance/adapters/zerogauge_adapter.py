# SPDX-License-Identifier: Apache-2.0
"""What every adapter in PyTorch needs (../CONTRACT.md): reads cases, computes their loss, writes answers."""
import argparse
import json
import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file

MOMENTS = ("exp_avg", "exp_avg_sq")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Unsupported(Exception):
    """The implementation cannot express what the case asks for."""


class Case:
    """What case.json says, as attributes (world, params, loss_scale, ...), and its files."""

    def __init__(self, folder, answer, state, rank):
        self.__dict__.update(json.loads((folder / "case.json").read_text()))
        self.folder, self.answer, self.rank, self.dtype = folder, answer, rank, DTYPES[self.precision]
        phase, at = (self.checkpoint["phase"], self.checkpoint["step"]) if self.checkpoint else (None, 0)
        shared = state and state / self.name.removesuffix(f".{phase}")
        self.save, self.resume = (shared if phase == name else None for name in ("save", "resume"))
        self.own_steps = range(at + 1 if self.resume else 1, (at if self.save else self.steps) + 1)
        trained = [p for p in self.params if not p["tied_to"] and not p["frozen"]]
        self.trained = [p["name"] for p in sorted(trained, key=lambda p: p["group"])]  # the optimizer's order
        (answer / f"rank-{rank}").mkdir(parents=True, exist_ok=True)

    def initial(self):
        return load_file(self.folder / "init.safetensors")

    def gradients(self, step):
        """This rank's: by micro-step and name, in the case's precision."""
        every = load_file(self.folder / f"grads-{step}.safetensors")
        prefixes = [f"m{micro}/r{self.rank}/" for micro in range(self.accumulation)]
        return [{name[len(prefix):]: g for name, g in every.items() if name.startswith(prefix)} for prefix in prefixes]

    def lr(self, index, step):
        lr = self.groups[index]["lr"]
        return lr[step - 1] if isinstance(lr, list) else lr

    def hyper_parameters(self, index):
        return {"lr": self.lr(index, 1), **{key: self.groups[index][key] for key in ("betas", "eps", "weight_decay")}}

    def optimizer_groups(self, by_name, decoupled):
        """As torch.optim wants them; `index` says which group of the case it is, the key `decoupled` whether AdamW."""
        members = [[by_name[p["name"]] for p in self.params if p["name"] in self.trained and p["group"] == index]
                   for index in range(len(self.groups))]
        return [{"params": m, "index": i, decoupled: self.groups[i]["optimizer"] == "AdamW", **self.hyper_parameters(i)}
                for i, m in enumerate(members) if m]

    def write_seen(self, step, seen):
        """What each forward of a step used on this rank: by micro-step, {name: parameter}."""
        tensors = {f"m{micro}/{name}": tensor for micro, part in enumerate(seen) for name, tensor in part.items()}
        save_file(tensors, self.answer / f"rank-{self.rank}" / f"step-{step}.safetensors")

    def write_step(self, step, tensors, t, skipped=False, scale=None, norm=None):
        """The state after a step, by rank 0: {"param/NAME": whole tensor, "exp_avg/NAME": ..., ...}, and the rest."""
        if self.rank != 0:
            return
        zeros = {f"{kind}/{p['name']}": torch.zeros(p["shape"]) for kind in MOMENTS
                 for p in self.params if p["name"] in self.trained and p["used"]}  # what has had no step yet
        tensors = {**zeros, **tensors, "t": torch.tensor(int(t))}
        if self.overflow_check:
            tensors["skipped"] = torch.tensor(int(skipped))
        if self.loss_scale["kind"] != "none":
            tensors["loss_scale"] = torch.tensor(float(scale))
        if norm is not None and not skipped:
            tensors["norm"] = torch.tensor(float(norm))
        tensors = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
        save_file(tensors, self.answer / f"step-{step}.safetensors")


class Uses(torch.nn.Module):
    """A module with some parameters; adds sum(parameter x gradient) to the loss, and keeps what it saw."""

    def __init__(self, model, named):
        super().__init__()
        self.model, self.names = [model], [name for name, _ in named]  # a list: no submodule
        for i, (_, parameter) in enumerate(named):
            self.register_parameter(f"p{i}", parameter)

    def forward(self, loss):
        model = self.model[0]
        for i, name in enumerate(self.names):
            used = getattr(self, f"p{i}").to(model.dtype)
            if name in model.gradients:  # in fp32, so that nothing but S x gradient is rounded to `precision`
                model.seen[name] = used.detach().clone()
                loss = loss + (used.float() * model.gradients[name].float()).sum()
        return loss


class Model(torch.nn.Module):
    """Units of about a bucket each, in model order. Tied parameters are the root's own, as FSDP wants it."""

    def __init__(self, case, dtype):
        super().__init__()
        initial, self.dtype, tied = case.initial(), case.dtype, {p["tied_to"] for p in case.params}
        self.by_name, own, units, size = {}, [], [[]], 0
        for p in case.params:
            name, owner = p["name"], p["tied_to"] or p["name"]
            if owner == name:
                self.by_name[name] = torch.nn.Parameter(initial[name].to(dtype), requires_grad=not p["frozen"])
            if owner in tied:
                own.append((name, self.by_name[owner]))
                continue
            if units[-1] and size + initial[name].numel() > case.buckets["reduce"]:
                units, size = units + [[]], 0
            units[-1].append((name, self.by_name[name]))
            size += initial[name].numel()
        self.units = torch.nn.ModuleList(Uses(self, unit) for unit in units if unit)
        self.own = Uses(self, own)
        self.name_of = {parameter: name for name, parameter in self.by_name.items()}

    def forward(self, gradients):
        self.gradients, self.seen = gradients, {}
        loss = self.own(torch.zeros(()))
        for unit in self.units:
            loss = unit(loss)
        return loss


def train(case, trainer):
    """The steps that are asked of this launch. `trainer` is what an adapter fills in: see skeleton.py."""
    if case.resume:
        trainer.load(case.resume, case.checkpoint["weights_only"])
    for step in case.own_steps:
        for group in trainer.optimizer.param_groups:
            group["lr"] = case.lr(group["index"], step)
        seen = []
        for micro, gradients in enumerate(case.gradients(step)):
            trainer.backward(gradients, last=micro == case.accumulation - 1)
            seen.append(trainer.model.seen)
        skipped, scale, norm = trainer.step()
        tensors, t = trainer.state()
        case.write_seen(step, seen)
        case.write_step(step, tensors, t, skipped, scale, norm)
    if case.save:
        trainer.save(case.save)


def serve(rank, args, rendezvous, Trainer):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(args.world), LOCAL_SIZE=str(args.world))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=args.world)
    for name in json.loads((args.cases / "order.json").read_text()):
        case, trainer = Case(args.cases / name, args.answers / name, args.state, rank), None
        try:
            trainer = Trainer(case, args)
            train(case, trainer)
        except Unsupported as reason:
            (case.answer / "unsupported.txt").write_text(f"{reason}\n")
        except Exception as error:
            if case.expect != "refusal":
                raise
            (case.answer / "refused.txt").write_text(f"{type(error).__name__}: {error}\n")
        if hasattr(trainer, "close"):
            trainer.close()
        dist.barrier()
    dist.destroy_process_group()


def main(Trainer, **options):
    """Starts the ranks. COMMAND is: python ADAPTER.py [--OPTION CHOICE ...] {cases} {answers} {world} [{state}]"""
    parser = argparse.ArgumentParser()
    for option, choices in options.items():
        parser.add_argument(f"--{option}", choices=choices, default=choices[0])
    for name, kind, count in ("cases", Path, None), ("answers", Path, None), ("world", int, None), ("state", Path, "?"):
        parser.add_argument(name, type=kind, nargs=count)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        args.scratch, rendezvous = Path(folder), f"file://{folder}/rendezvous"
        torch.multiprocessing.start_processes(serve, (args, rendezvous, Trainer), args.world, start_method="fork")
