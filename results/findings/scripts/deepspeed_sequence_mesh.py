# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 deepspeed==0.19.8
"""Stages 1 and 2 with mesh_param add nothing over the ranks of a sequence.

Two ranks share a micro-batch, and their shares of its gradient are 1 and 2."""
import os, sys
os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "29519"}
try:
    import deepspeed, torch
except ImportError as missing:
    sys.exit(print(missing) or 77)

if (rank := int(os.fork() == 0)):  # this process and its child
    os.environ |= {"RANK": "1", "LOCAL_RANK": "1"}
deepspeed.init_distributed(dist_backend="gloo")
expected, actual = {stage: 3.0 for stage in (1, 2)}, {}
for stage in expected:
    model = torch.nn.Linear(4, 4, bias=False)
    engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), mesh_param=(1, 2), config={
        "train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0, "zero_optimization": {"stage": stage},
        "optimizer": {"type": "Adam", "params": {"lr": 0.1, "betas": [0.0, 0.9], "torch_adam": True}}})[0]
    engine.backward(engine(torch.ones(1, 4) * (rank + 1)).sum())
    engine.step()  # with beta1 = 0 exp_avg is the gradient
    actual[stage] = deepspeed.utils.safe_get_full_optimizer_state(model.weight, "exp_avg")[0, 0].item()
rank == 0 or os._exit(0)
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
