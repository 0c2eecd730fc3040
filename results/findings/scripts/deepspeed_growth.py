# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed in fp16, stages 1 to 3: in the step after which the loss scale grows, Adam gets half the gradient. Each
gradient is 1, and with beta1 = 0 exp_avg is the gradient. DeepSpeed 0.19.8."""
import os
import sys

os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "29529"}
import deepspeed
import torch
from deepspeed.accelerator import get_accelerator
from deepspeed.utils import safe_get_full_optimizer_state

get_accelerator().is_fp16_supported = lambda: True  # the CPU has no instructions for it, and computes it all the same
deepspeed.utils.logger.setLevel("ERROR")
deepspeed.init_distributed(dist_backend="gloo")
for stage in 1, 2, 3:
    model = torch.nn.Linear(4, 1, bias=False).half()
    engine, optimizer, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_batch_size": 1, "gradient_clipping": 0, "zero_optimization": {"stage": stage},
        "fp16": {"enabled": True, "initial_scale_power": 4, "loss_scale_window": 2},
        "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "betas": [0.0, 0.9], "torch_adam": True}}})
    for step in range(1, 6):
        before = optimizer.loss_scale
        engine.backward(engine(torch.ones(1, 4).half()).sum())
        engine.step()
        gradient = safe_get_full_optimizer_state(model.weight, "exp_avg").flatten()[0].item()
        print(f"stage {stage}, step {step}: loss scale {before:g}, then {optimizer.loss_scale:g}: gradient {gradient:g}",
              flush=True)
sys.exit()
