# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 deepspeed==0.19.8
"""Stage 3: load_checkpoint(load_module_only=True) loads no weights, without an error."""
import os, sys, tempfile
os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "0"}
try:
    import deepspeed, torch
except ImportError as missing:
    sys.exit(print(missing) or 77)

def made(value):
    model = torch.nn.Linear(4, 1, bias=False)
    model.weight.data.fill_(value)
    return deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_batch_size": 1, "zero_optimization": {"stage": 3},
        "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}}})[0]


deepspeed.init_distributed(dist_backend="gloo")
folder = tempfile.mkdtemp()
made(1.0).save_checkpoint(folder, tag="saved")
engine = made(2.0)
engine.load_checkpoint(folder, tag="saved", load_module_only=True)
with deepspeed.zero.GatheredParameters(engine.module.weight):
    expected, actual = 1.0, engine.module.weight[0, 0].item()
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
