# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 deepspeed==0.19.8
"""A group whose parameters are all empty stops deepspeed.initialize at stages 1 and 2.

Empty parameters are left out of their group, and then its first one is asked for its dtype."""
import os, sys
os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "0"}
try:
    import deepspeed, torch
except ImportError as missing:
    sys.exit(print(missing) or 77)

deepspeed.init_distributed(dist_backend="gloo")
expected, actual = {stage: "initialized" for stage in (0, 1, 2)}, {}
for stage in expected:
    parameters = [torch.nn.Parameter(torch.ones(size)) for size in (4, 0)]
    try:
        deepspeed.initialize(
            model=torch.nn.ParameterList(parameters), model_parameters=[{"params": [p]} for p in parameters], config={
                "train_batch_size": 1, "zero_optimization": {"stage": stage},
                "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}}})
        actual[stage] = "initialized"
    except IndexError as error:
        actual[stage] = repr(error)
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
