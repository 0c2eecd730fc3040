# SPDX-License-Identifier: Apache-2.0
"""Loads configurations that `zerogauge plan --write` writes into DeepSpeed, and plans what DeepSpeed has read:

    python deepspeed_write.py ZEROGAUGE OUT

Both plans must be equal, in every byte and time: then each key means the same to both. Those of one rank with offloading
also train one step in a DeepSpeed engine on the CPU."""
import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import deepspeed_start  # noqa: F401  before DeepSpeed
import torch
from deepspeed import comm, initialize
from deepspeed.runtime.config import DeepSpeedConfig

NVME = "zero_optimization.offload_optimizer.nvme_path={folder}"
FP16 = ["fp16.enabled=true", "bf16.enabled=false", "fp16.initial_scale_power=12"]
WARMUP = ["scheduler.type=WarmupDecayLR", "scheduler.params.total_num_steps=100"]
SMALL = [f"zero_optimization.{key}=1000000" for key in
         ("reduce_bucket_size", "allgather_bucket_size", "stage3_prefetch_bucket_size", "sub_group_size")]
# By name: the preset, the ranks, and changed keys.
PLANS = {
    "zero0": ("zero0", 4, []),
    "zero1": ("zero1", 4, ["gradient_accumulation_steps=3", "data_types.grad_accum_dtype=fp32"]),
    "zero2-fp16": ("zero2", 8, FP16 + WARMUP),
    "zero2-offload": ("zero2_offload", 1, SMALL),
    "zero3": ("zero3", 16, ["zero_optimization.stage3_max_live_parameters=3000000", "optimizer.params.lr=0.0003"]),
    "zero3-hpz": ("zero3", 16, ["zero_optimization.zero_hpz_partition_size=8"]),
    "zero3-mesh": ("zero3", 16, ["zerogauge.mesh=replicate=2,shard=8"]),
    "zero3-half-offload": ("zero3_offload", 4, ["zero_optimization.offload_optimizer.ratio=0.5"]),
    "zero3-offload": ("zero3_offload", 1, SMALL),
    "zero-infinity": ("zero_infinity", 1, SMALL + [NVME]),
}


def planned(zerogauge, *options):
    """A plan's record, without the time that planning took."""
    text = subprocess.run([zerogauge, "plan", "--model", "gpt2", "--json", *options], check=True, stdout=subprocess.PIPE,
                          text=True).stdout
    return {key: value for key, value in json.loads(text).items() if key != "planning_s"}


def understood(file, world):
    """The configuration as DeepSpeed has read it, with every default, as JSON. It skips the section "zerogauge"."""
    comm.get_rank, comm.get_world_size = lambda group=None: 0, lambda group=None: world
    read = DeepSpeedConfig(str(file))
    given = json.loads(file.read_text())
    dtype = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}[read.communication_data_type]
    out = {"train_batch_size": read.train_batch_size,
           "train_micro_batch_size_per_gpu": read.train_micro_batch_size_per_gpu,
           "gradient_accumulation_steps": read.gradient_accumulation_steps,
           "gradient_clipping": read.gradient_clipping,
           "communication_data_type": dtype,
           "data_types": {"grad_accum_dtype": read.grad_accum_dtype},
           "fp16": read.float16_config.model_dump(mode="json"),
           "bf16": read.bfloat16_config.model_dump(mode="json"),
           "optimizer": {"type": {"adam": "Adam", "adamw": "AdamW"}[read.optimizer_name],
                         "params": read.optimizer_params},
           "activation_checkpointing": {"cpu_checkpointing": read.activation_checkpointing_config.cpu_checkpointing},
           "zero_optimization": read.zero_config.model_dump(mode="json"),
           "zerogauge": given["zerogauge"]}
    if read.scheduler_name:
        out["scheduler"] = {"type": read.scheduler_name, "params": read.scheduler_params}
    if "aio" in given:
        out["aio"] = {key: read.aio_config[key] for key in given["aio"]}
    return out


def step(file):
    """Trains one step with the file in an engine of one rank. Returns the parameters' largest change."""
    model = torch.nn.Sequential(torch.nn.Linear(256, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1))
    engine = initialize(model=model, config=str(file), dist_init_required=False)[0]
    sizes = engine.train_micro_batch_size_per_gpu(), 256
    before = [value.clone() for value in engine.module_state_dict().values()]
    engine.backward(engine(torch.ones(sizes, dtype=torch.bfloat16)).float().mean())
    engine.step()
    after = engine.module_state_dict().values()
    return max((a - b).abs().max().item() for a, b in zip(after, before))


def differences(left, right, path=""):
    """The paths at which two records differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        return [found for key in {**left, **right}
                for found in differences(left.get(key), right.get(key), f"{path}.{key}".strip("."))]
    return [] if left == right else [f"{path}: {left}, DeepSpeed's {right}"]


def main(zerogauge, out):
    out, wrong = Path(out), 0
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    real = comm.get_rank, comm.get_world_size
    for name, (preset, world, changes) in PLANS.items():
        ours, theirs = out / f"{name}.json", out / f"{name}-read.json"
        changes = [option for change in changes for option in ("--set", change.format(folder=out))]
        plan = planned(zerogauge, "--preset", preset, "--world", str(world), *changes, "--write", ours)
        theirs.write_text(json.dumps(understood(ours, world), indent=2))
        found = differences(plan, planned(zerogauge, "--config", theirs, "--world", str(world)))
        wrong += bool(found)
        print(f"{name:20} {'DIFFERS' if found else 'the same plan'}", *found, sep="\n    " if found else " ")
    comm.get_rank, comm.get_world_size = real
    warnings.filterwarnings("ignore")
    comm.init_distributed("gloo", init_method=f"file://{out}/store", rank=0, world_size=1, verbose=False)
    for name, (_, world, _) in PLANS.items():
        if world > 1:
            continue
        change = step(out / f"{name}.json")
        wrong += not change > 0
        print(f"{name:20} a step of an engine changes parameters by up to {change:.2g}")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
