# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed: two weights of gradient 1, of which the second step uses one alone. With betas [0.5, 0.9] exp_avg of the
other is then 0.25 if its gradient is zero, 0.5 if it is left alone, and 0.75 if it gets that of the step before.
DeepSpeed 0.19.8."""
import os
import sys

os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "29533"}
import deepspeed
import torch
from deepspeed.utils import safe_get_full_optimizer_state


class Sum(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4, bias=False) for _ in range(2))

    def forward(self, x, used):
        return sum(layer(x).sum() for layer in self.layers[:used])


deepspeed.utils.logger.setLevel("ERROR")
deepspeed.init_distributed(dist_backend="gloo")
for stage in 1, 2, 3:
    for device in "none", "cpu":
        model = Sum()
        engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
            "train_batch_size": 1, "gradient_clipping": 0, "zero_force_ds_cpu_optimizer": False,
            "zero_optimization": {"stage": stage, "offload_optimizer": {"device": device}},
            "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "betas": [0.5, 0.9], "torch_adam": True}}})[0]
        for used in 2, 1:
            engine.backward(engine(torch.ones(1, 4), used))
            engine.step()
        moment = safe_get_full_optimizer_state(model.layers[1].weight, "exp_avg")
        print(f"stage {stage}, offload to {device}: exp_avg {moment[0, 0]:g}", flush=True)
sys.exit()
