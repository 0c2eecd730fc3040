# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0
"""A distributed checkpoint cannot be loaded if a parameter has had no gradient."""
import sys, tempfile
try:
    import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
    from torch.distributed.fsdp import fully_shard
except ImportError as missing:
    sys.exit(print(missing) or 77)

def made():
    model = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Linear(1, 1))
    model.forward = lambda x: model[0](x)  # the second has no gradient
    return fully_shard(model), torch.optim.Adam(model.parameters())

folder = tempfile.mkdtemp()
dist.init_process_group("gloo", init_method=f"file://{folder}/ranks", rank=0, world_size=1)
model, optimizer = made()
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
dcp.save({"optimizer": get_optimizer_state_dict(model, optimizer)}, checkpoint_id=f"{folder}/saved")
expected = actual = "loaded"
try:
    dcp.load({"optimizer": get_optimizer_state_dict(*made())}, checkpoint_id=f"{folder}/saved")
except dcp.api.CheckpointException as error:
    actual = next(line for line in str(error).splitlines() if line.startswith("RuntimeError"))
dist.destroy_process_group()
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
