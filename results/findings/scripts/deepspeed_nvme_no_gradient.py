# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 deepspeed==0.19.8
"""NVMe: a step fails if no parameter of a sub-group has a gradient."""
import os, sys, tempfile
os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "0"}
try:
    import deepspeed, torch
except ImportError as missing:
    sys.exit(print(missing) or 77)

deepspeed.init_distributed(dist_backend="gloo")
model = torch.nn.ModuleList(torch.nn.Linear(1024, 512, bias=False) for _ in range(4))  # 2 MiB each
model.forward = lambda used: sum(each(torch.ones(1, 1024).bfloat16()).float().sum() for each in model[:used])
engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
    "train_batch_size": 1, "gradient_clipping": 0, "bf16": {"enabled": True}, "zero_optimization": {
        "stage": 3, "sub_group_size": 1 << 19,
        "offload_optimizer": {"device": "nvme", "nvme_path": tempfile.mkdtemp()}},
    "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "betas": [0.5, 0.9]}}})[0]

expected = actual = "a step is made"
try:
    engine.backward(engine(3))  # of four weights, each a sub-group
    engine.step()
except AttributeError as error:
    actual = repr(error)
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
