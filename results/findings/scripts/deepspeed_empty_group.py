# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed: a parameter group whose parameters have no elements. Stages 1 and 2 omit empty parameters, and then take
the first of each group. DeepSpeed 0.19.8."""
import os
import sys

os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "29551"}
import deepspeed
import torch

deepspeed.utils.logger.setLevel("ERROR")
deepspeed.init_distributed(dist_backend="gloo")
failed = 0
for stage in 0, 1, 2:
    for shapes in ([4], [0]), ([4, 0], [2]):  # of the parameters of two groups
        groups = [{"params": [torch.nn.Parameter(torch.ones(size)) for size in group]} for group in shapes]
        model = torch.nn.ParameterList(sum((group["params"] for group in groups), []))
        try:
            deepspeed.initialize(model=model, model_parameters=groups, config={
                "train_batch_size": 1, "zero_optimization": {"stage": stage},
                "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}}})
            text = "initialized"
        except IndexError as error:
            failed, text = failed + 1, f"IndexError: {error}"
        print(f"stage {stage}, groups of parameters of {shapes[0]} and {shapes[1]} elements: {text}", flush=True)
sys.exit(failed > 0)
