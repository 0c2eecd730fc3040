# SPDX-License-Identifier: Apache-2.0
"""A universal checkpoint of DeepSpeed's stage 3 with several sub-groups: after loading, all sub-groups share one counter
of steps, which each of them advances. One rank, three weights in three sub-groups. DeepSpeed 0.19.8."""
import os
import subprocess
import sys
import tempfile

os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "29527"}
import deepspeed
import torch


def made(sub_group, **checkpoint):
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4, bias=False) for _ in range(3)))
    for p in model.parameters():
        torch.nn.init.eye_(p)
    return deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_batch_size": 1, "zero_optimization": {"stage": 3, "sub_group_size": sub_group}, "gradient_clipping": 0,
        "optimizer": {"type": "Adam", "params": {"lr": 0.1, "torch_adam": True}}, "checkpoint": checkpoint})[0]


def step(engine):
    engine.backward(engine(torch.ones(1, 4)).sum())
    engine.step()
    return [int(state["step"]) for state in engine.optimizer.optimizer.state.values()]


deepspeed.utils.logger.setLevel("ERROR")
deepspeed.init_distributed(dist_backend="gloo")
for sub_group in 1000, 16:
    with tempfile.TemporaryDirectory() as folder:
        engine = made(sub_group)
        step(engine)
        engine.save_checkpoint(folder, tag="saved", client_state={"universal_checkpoint_info": {
            "universal_checkpoint_version": 0.4}})
        print(f"sub-groups of {sub_group}: without a checkpoint, step 2: t {step(engine)}, step 3: t {step(engine)}")
        subprocess.run([sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", "--input_folder", f"{folder}/saved",
                        "--output_folder", f"{folder}/universal"], check=True, stdout=subprocess.DEVNULL)
        engine = made(sub_group, load_universal=True)
        engine.load_checkpoint(folder, tag="universal")
        print(f"sub-groups of {sub_group}: loaded after step 1, step 2: t {step(engine)}, step 3: t {step(engine)}",
              flush=True)
