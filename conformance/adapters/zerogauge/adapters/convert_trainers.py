# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that `zerogauge convert` makes, in the trainers that they are for:

    python convert_trainers.py ZEROGAUGE OUT

The reference, FSDP2 and DeepSpeed save at 1, 2 and 3 ranks; every conversion has the digest of the first; each loads at
1, 2 and 3 ranks, DDP and the other trainer at one, and the next step has the bits of a run that was not interrupted."""
import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import deepspeed_start  # noqa: F401  before DeepSpeed
import deepspeed
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from deepspeed.checkpoint import ds_to_universal
from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

sys.path.append(str(Path(__file__).resolve().parents[2]))  # of the package
from zerogauge import convert, states  # noqa: E402

STEPS, WORLDS = 3, (1, 2, 3)
counter = itertools.count()


class Layer(torch.nn.Linear):
    def forward(self, draw):
        """A loss whose gradients are multiples of 6 / 128: any mean over up to 3 ranks is exact in bf16."""
        loss = 0
        for weight in self.parameters():
            gradient = 6 / 128 * torch.randint(-4, 5, weight.shape, generator=draw)
            loss = loss + (weight * gradient.to(weight.dtype)).sum()
        return loss


class Net(torch.nn.Module):
    """Two groups, uneven sizes, and one tied, one frozen and, if asked for, one unused weight."""

    def __init__(self, unused, one_group):
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b, self.tied, self.frozen = Layer(3, 5), *(Layer(7, 11, bias=False) for _ in range(2)), Layer(2, 2)
        self.tied.weight, self.one_group = self.b.weight, one_group
        self.frozen.requires_grad_(False)
        if unused:
            self.unused = Layer(2, 3, bias=False)

    def forward(self, step):
        draw = torch.Generator().manual_seed(step)
        return sum(layer(draw) for layer in (self.a, self.b, self.tied, self.frozen))

    def groups(self):
        trained = [p for p in self.parameters() if p.requires_grad]
        if self.one_group:
            return [{"params": trained, "weight_decay": 0.1}]
        rest = [self.a.bias, *(self.unused.parameters() if hasattr(self, "unused") else [])]
        return [{"params": [self.a.weight, self.b.weight], "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]


def adam(net):
    return torch.optim.AdamW(net.groups(), lr=0.01)


def torch_run(kind, world, unused, one_group, steps, source=None, out=None):
    net = wrapped = Net(unused, one_group)
    if kind == "fsdp2":
        fully_shard(net, mesh=dist.device_mesh.init_device_mesh("cpu", (world,)))
    else:
        wrapped = torch.nn.parallel.DistributedDataParallel(net, find_unused_parameters=True)
    optimizer = adam(net)
    if source:
        model, state = get_state_dict(wrapped, optimizer)
        if unused:  # PyTorch makes states of zeros to load into, also where a run has none
            state["state"].pop("unused.weight", None)
        dcp.load({"model": model, "optim": state}, checkpoint_id=source)
        set_state_dict(wrapped, optimizer, model_state_dict=model, optim_state_dict=state,
                       options=StateDictOptions(strict=not unused))
    for step in steps:
        wrapped(step).backward()
        optimizer.step()
        optimizer.zero_grad()
    if out:
        model, state = get_state_dict(wrapped, optimizer)
        dcp.save({"model": model, "optim": state}, checkpoint_id=out)
    whole = get_state_dict(wrapped, optimizer, options=StateDictOptions(full_state_dict=True))
    moments = {f"{name}.{key}": value for name, row in whole[1].get("state", {}).items() for key, value in row.items()
               if key != "step"}
    return {**{name: whole[0][name] for name, p in net.named_parameters() if p.requires_grad}, **moments}


def deepspeed_run(kind, world, unused, one_group, steps, source=None, out=None):
    net = Net(unused, one_group)
    config = {"train_batch_size": world, "zero_optimization": {"stage": int(kind[-1])}, "gradient_clipping": 0,
              "bf16": {"enabled": True}, "checkpoint": {"load_universal": source is not None},
              "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "torch_adam": True}}}
    engine = deepspeed.initialize(model=net, model_parameters=net.groups(), config=config)[0]
    if source:
        engine.load_checkpoint(source)
    for step in steps:
        engine.backward(engine(step))
        engine.step()
    if out:
        engine.save_checkpoint(out, tag="saved", client_state={"universal_checkpoint_info": {
            "universal_checkpoint_version": 0.4}})
    engine.optimizer._hp_optimizer_states_linked = False  # DeepSpeed links only the first group's
    if hasattr(engine.optimizer, "_lazy_init_hp_params_optimizer_state"):
        engine.optimizer._lazy_init_hp_params_optimizer_state()
    result = {}
    for name, p in net.named_parameters():
        if p.requires_grad:
            result[name] = safe_get_full_fp32_param(p)
            result |= {f"{name}.{key}": safe_get_full_optimizer_state(p, key) for key in states.TRAINED}
    return result


def forked(function, count):
    """Whether a function ends well in each of `count` processes; each prints to a file."""
    work = Path(f"ranks-{next(counter)}").resolve()
    work.mkdir()

    def one(rank):
        with (work / f"{rank}.txt").open("w") as log:
            os.dup2(log.fileno(), 1), os.dup2(log.fileno(), 2)
        function(rank, work)

    try:
        torch.multiprocessing.start_processes(one, nprocs=count, start_method="fork")
    except torch.multiprocessing.ProcessException as error:
        (work / "error.txt").write_text(str(error))
        return None
    return work


def run(kind, world, *arguments):
    """The trained tensors of rank 0, or None: the ranks have failed."""
    def rank_main(rank, work):
        torch.set_num_threads(1)
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
        dist.init_process_group("gloo", init_method=f"file://{work}/meet", rank=rank, world_size=world)
        deepspeed.init_distributed(dist_backend="gloo", verbose=False)
        result = (deepspeed_run if kind.startswith("zero") else torch_run)(kind, world, *arguments)
        if rank == 0:
            torch.save({name: value.detach().clone() for name, value in result.items()}, work / "result.pt")
        dist.barrier()

    work = forked(rank_main, world)
    return work and torch.load(work / "result.pt", weights_only=True)


def edges(source, *forms):
    """Converts from one format to the next, and returns the last path and what is said of each state."""
    said = set()
    for form in forms:
        out = Path(f"{source}-{form}")
        said.add(convert.make(source, out, form))
        source = out
    return source, said


def universal(saved):
    """What DeepSpeed's own program makes of a checkpoint."""
    assert forked(lambda rank, work: ds_to_universal.main(argparse.Namespace(
        input_folder=f"{saved}/saved", output_folder=f"{saved}/universal", num_extract_workers=1, num_merge_workers=1,
        keep_temp_folder=False, strict=True, inject_missing_state=False)), 1), saved
    (Path(saved) / "latest_universal").write_text("universal")


FAILED = []


def expect(claim, good):
    print(f"{'PASS' if good else 'FAIL'}: {claim}", flush=True)
    FAILED.extend([claim] * (not good))


def same(result, whole):
    """Equal in every bit, where both have the tensor: DeepSpeed also has moments of what is not used, all zeros."""
    return result is not None and whole is not None and {*result} >= {name for name in whole if "." in name} and all(
        torch.equal(result[name], whole[name]) for name in whole)


def reference(zerogauge):
    def train(world, steps, *rest):
        line = [zerogauge, "train", "--preset", "zero2", "--model", "linear-exact", "--world", world, "--steps", steps,
                "--set", "train_batch_size=12", "--set", "train_micro_batch_size_per_gpu=auto", "--set",
                "bf16.enabled=false", "--set", "fp16.enabled=true", "--set", "fp16.initial_scale_power=4", "--set",
                "scheduler.type=WarmupLR", "--set", "scheduler.params.warmup_num_steps=8", "--json", *rest]
        return json.loads(subprocess.run([*map(str, line)], check=True, capture_output=True).stdout)["state_digest"]
    for world in WORLDS:
        saved = Path(f"reference-{world}")
        train(world, STEPS, "--save", saved)
        whole = train(world, STEPS + 2)
        first, one = edges(saved, "universal", "dcp", "zerogauge")
        _, two = edges(saved, "dcp", "universal", "safetensors")
        expect(f"the reference, saved at {world}: six conversions, one digest", len(one | two) == 1)
        for again in WORLDS:
            ends = {train(again, STEPS + 2, "--resume", path) for path in (saved, first)} | ({whole} if again == world else set())
            expect(f"the reference, saved at {world}, resumed at {again}, ends as if not converted", len(ends) == 1)


def trainers(family, others, unused, one_group=False, worlds=WORLDS):
    """others: who loads, by the number of ranks. one_group: for stage 3, because DeepSpeed 0.19.8 gives all its groups the
    first one's settings and counter when it loads a universal checkpoint."""
    steps = range(1, STEPS + 1)
    whole = run("ddp" if family == "fsdp2" else "zero1", 1, unused, one_group, range(1, STEPS + 2))
    for world in worlds:
        kind = family if family == "fsdp2" else f"zero{world}"
        saved = f"{kind}-{world}-{unused}-{one_group}"
        assert run(kind, world, unused, one_group, steps, None, saved) is not None, f"{saved}: see ranks-*/"
        if kind != family:
            universal(saved)
        here, there = ("dcp", "universal") if family == "fsdp2" else ("universal", "dcp")
        crossed, one = edges(Path(saved), there)
        back, two = edges(crossed, here)
        expect(f"{kind} at {world} ranks: through {there} and back, one digest", len(one | two) == 1)
        for again, other in zip(WORLDS, others, strict=True):
            load = back if (other.startswith("zero")) == (here == "universal") else crossed
            expect(f"{kind} at {world} ranks{', one weight unused' * unused}, loaded by {other} at {again}: the next step "
                   "is that of the uninterrupted run",
                   same(run(other, again, unused, one_group, [STEPS + 1], str(load)), whole))


def main():
    zerogauge, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    os.chdir(out)
    os.environ["PATH"] = f"{zerogauge.parent}:{os.environ['PATH']}"
    reference(zerogauge)
    trainers("fsdp2", ("fsdp2", "ddp", "fsdp2"), True)
    trainers("zero", ("zero1", "zero2", "zero1"), True)
    trainers("zero", ("zero3", "zero3", "zero3"), True, True)
    trainers("fsdp2", ("zero2", "zero1", "zero2"), False, False, [2])
    trainers("zero", ("ddp", "fsdp2", "fsdp2"), False, False, [2, 3])
    print(f"{len(FAILED)} failed")
    return len(FAILED) > 0


if __name__ == "__main__":
    sys.exit(main())
