# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's stage 3 loses the gradients of a leaf module whose input needs none, as that of the first layer behind
frozen ones: its backward hook runs before they exist. The gradient of every weight is 1. DeepSpeed 0.19.8."""
import os
import sys

os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "29517"}
import deepspeed
import torch
from deepspeed.utils import safe_get_full_optimizer_state, set_z3_leaf_modules


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4, bias=False)

    def forward(self, x):
        return self.first(x)


def moments(input_needs_gradient, bucket):
    model = torch.nn.Sequential(Block())
    set_z3_leaf_modules(model, [Block])
    config = {"train_batch_size": 1, "zero_optimization": {"stage": 3, "reduce_bucket_size": bucket},
              "gradient_clipping": 0, "optimizer": {"type": "Adam", "params": {"lr": 0.1, "betas": [0.0, 0.9], "torch_adam": True}}}
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    for _ in range(2):
        engine.backward(engine(torch.ones(1, 4, requires_grad=input_needs_gradient)).sum())
        engine.step()
    return safe_get_full_optimizer_state(model[0].first.weight, "exp_avg")[0, 0].item()


deepspeed.utils.logger.setLevel("ERROR")
deepspeed.init_distributed(dist_backend="gloo")
for needed in True, False:
    for bucket in 1000, 1:
        try:
            print(f"input needs a gradient: {needed}, bucket of {bucket}: gradient {moments(needed, bucket):g}", flush=True)
        except RuntimeError as error:
            print(f"input needs a gradient: {needed}, bucket of {bucket}: {error}", flush=True)
sys.exit()
