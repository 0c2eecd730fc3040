# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed at stage 0 in bf16 and fp16: the optimizer makes a step while it is made, which moves t, and with decay the
master weights. DeepSpeed 0.19.8."""
import os
import sys

os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "29563"}
import deepspeed
import torch
from deepspeed.accelerator import get_accelerator

get_accelerator().is_fp16_supported = lambda: True  # the CPU has no instructions for it, and computes it all the same
deepspeed.utils.logger.setLevel("ERROR")
deepspeed.init_distributed(dist_backend="gloo")
for key, dtype in ("bf16", torch.bfloat16), ("fp16", torch.half):
    model = torch.nn.Linear(4, 1, bias=False).to(dtype)
    model.weight.data.fill_(1)
    _, optimizer, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_batch_size": 1, "zero_optimization": {"stage": 0}, key: {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.1, "torch_adam": True}}})
    steps = {float(state["step"]) for state in optimizer.optimizer.state.values()}
    print(f"{key}, before the first step: t {sorted(steps)}, master weight {optimizer.fp32_groups[0][0].flatten()[0]:.6f}"
          ", expected no t, or 0, and 1", flush=True)
sys.exit()
