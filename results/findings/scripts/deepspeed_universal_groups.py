# SPDX-License-Identifier: Apache-2.0
"""A universal checkpoint of two groups, loaded in stage 3: all have the first one's settings. DeepSpeed 0.19.8."""
import os
import subprocess
import sys
import tempfile

os.environ |= dict(DS_ACCELERATOR="cpu", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="localhost", MASTER_PORT="29528")
import deepspeed
import torch


def made(stage, **checkpoint):
    a, b = (torch.nn.Linear(4, 4, bias=False) for _ in range(2))
    groups = [{"params": [a.weight], "weight_decay": 0.1}, {"params": [b.weight], "weight_decay": 0.0}]
    return deepspeed.initialize(model=torch.nn.Sequential(a, b), model_parameters=groups, config={
        "train_batch_size": 1, "zero_optimization": {"stage": stage}, "checkpoint": checkpoint,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.1, "torch_adam": True}}})[0]


deepspeed.utils.logger.setLevel("ERROR")
deepspeed.init_distributed(dist_backend="gloo")
for stage in 2, 3:
    with tempfile.TemporaryDirectory() as folder:
        engine = made(stage)
        engine.backward(engine(torch.ones(1, 4)).sum())
        engine.step()
        saved = [group["weight_decay"] for group in engine.optimizer.optimizer.param_groups]
        engine.save_checkpoint(folder, tag="saved", client_state={"universal_checkpoint_info": {
            "universal_checkpoint_version": 0.4}})
        subprocess.run([sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", "--input_folder", f"{folder}/saved",
                        "--output_folder", f"{folder}/universal"], check=True, stdout=subprocess.DEVNULL)
        engine = made(stage, load_universal=True)
        engine.load_checkpoint(folder, tag="universal")
        loaded = [group["weight_decay"] for group in engine.optimizer.optimizer.param_groups]
        print(f"stage {stage}: weight decay of the groups as saved {saved}, as loaded {loaded}", flush=True)
