# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's stage 3 with the optimizer on NVMe, on one rank: parameters without a gradient, and a checkpoint. Every
gradient is 1. DeepSpeed 0.19.8."""
import os
import sys
import tempfile

os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "29531"}
import deepspeed
import torch
from deepspeed.utils import safe_get_full_optimizer_state


NAMES = "a", "b", "c", "d"
ELEMENTS = 1 << 19  # 2 MiB of fp32: a sub-group below 1 MiB stays in memory


class Sum(torch.nn.Module):

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleDict({name: torch.nn.Linear(1024, ELEMENTS // 1024, bias=False) for name in NAMES})

    def forward(self, used):
        return sum(self.layers[name](torch.ones(1, 1024, dtype=torch.bfloat16)).float().sum() for name in used)


def made(device, sub_group):
    deepspeed.zero.Init.param_id = 0  # names the files; 0 as in a new process
    model = Sum()
    engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_batch_size": 1, "gradient_clipping": 0, "bf16": {"enabled": True},
        "zero_optimization": {"stage": 3, "sub_group_size": sub_group,
                              "offload_optimizer": {"device": device, "nvme_path": folder}},
        "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "betas": [0.5, 0.9]}}})[0]
    return engine, model


def step(engine, model, used, name):
    engine.backward(engine(used))
    engine.step()
    moment = safe_get_full_optimizer_state(model.layers[name].weight, "exp_avg")
    return f"{moment.min():g} to {moment.max():g}"


deepspeed.utils.logger.setLevel("ERROR")
deepspeed.init_distributed(dist_backend="gloo")
for device in "cpu", "nvme":
    with tempfile.TemporaryDirectory() as folder:
        trainer = made(device, 2 * ELEMENTS)
        print(f"{device}: exp_avg of `d`, which step 1 does not use: {step(*trainer, NAMES[:3], 'd')}", flush=True)
        trainer = made(device, 2 * ELEMENTS)
        texts = [step(*trainer, NAMES, "a") for _ in range(2)]
        trainer[0].save_checkpoint(folder, tag="saved")
        print(f"{device}: exp_avg after step 2: {texts[1]}, after step 3: {step(*trainer, NAMES, 'a')}", flush=True)
        trainer = made(device, 2 * ELEMENTS)
        trainer[0].load_checkpoint(folder, tag="saved")
        print(f"{device}: loaded after step 2, after step 3: {step(*trainer, NAMES, 'a')}", flush=True)
        try:
            print(f"{device}: a sub-group without a gradient: {step(*made(device, ELEMENTS), NAMES[:3], 'd')}", flush=True)
        except AttributeError as error:
            print(f"{device}: a sub-group without a gradient: AttributeError: {error}", flush=True)
sys.exit()
