# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 deepspeed==0.19.8
"""An elastic checkpoint of PyTorch's Adam cannot be loaded at stages 1 and 2."""
import os, sys, tempfile
os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "0"}
try:
    import deepspeed, torch
except ImportError as missing:
    sys.exit(print(missing) or 77)

def made(stage):
    model = torch.nn.Linear(4, 4, bias=False)
    return deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_batch_size": 1, "zero_optimization": {"stage": stage, "elastic_checkpoint": True},
        "optimizer": {"type": "Adam", "params": {"lr": 0.1, "torch_adam": True}}})[0]

deepspeed.init_distributed(dist_backend="gloo")
expected, actual = {1: "loaded", 2: "loaded"}, {}
for stage in expected:
    engine, folder = made(stage), tempfile.mkdtemp()
    engine.backward(engine(torch.ones(1, 4)).sum())
    engine.step()
    engine.save_checkpoint(folder, tag="saved")
    try:
        actual[stage] = "loaded" if made(stage).load_checkpoint(folder, tag="saved")[0] else "not loaded"
    except AssertionError as error:
        actual[stage] = repr(error)
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
