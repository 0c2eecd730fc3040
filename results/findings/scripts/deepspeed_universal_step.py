# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 deepspeed==0.19.8
"""A universal checkpoint loaded at stage 3 advances t once for each sub-group in every step."""
import os, sys, tempfile
os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "0"}
try:
    import deepspeed, torch
except ImportError as missing:
    sys.exit(print(missing) or 77)

def made(**checkpoint):
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4, bias=False) for _ in range(3)))  # three sub-groups
    return deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_batch_size": 1, "zero_optimization": {"stage": 3, "sub_group_size": 16}, "checkpoint": checkpoint,
        "optimizer": {"type": "Adam", "params": {"lr": 0.1, "torch_adam": True}}})[0]

deepspeed.init_distributed(dist_backend="gloo")
engine, d = made(), tempfile.mkdtemp()
for step in 1, 2:
    engine.backward(engine(torch.ones(1, 4)).sum())
    engine.step()
    if step == 1:
        engine.save_checkpoint(d, "a", {"universal_checkpoint_info": {"universal_checkpoint_version": 0.4}})
        os.system(f"python -m deepspeed.checkpoint.ds_to_universal --input_folder {d}/a --output_folder {d}/b")
        engine = made(load_universal=True)
        engine.load_checkpoint(d, "b")
expected, actual = [2, 2, 2], [int(state["step"]) for state in engine.optimizer.optimizer.state.values()]
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
