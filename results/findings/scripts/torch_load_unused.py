# SPDX-License-Identifier: Apache-2.0
"""A checkpoint of an FSDP2 model, written as PyTorch's documentation says, cannot be loaded if a parameter has had no
gradient: saving omits its optimizer state, and loading makes one and asks the checkpoint for it. PyTorch 2.15.0."""
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
from torch.distributed.fsdp import fully_shard


def made():
    model = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Linear(1, 1))  # the second has no gradient
    fully_shard(model)
    return model, torch.optim.Adam(model.parameters())


with tempfile.TemporaryDirectory() as folder:
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=0, world_size=1)
    model, optimizer = made()
    for p in model[0].parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    dcp.save({"optimizer": get_optimizer_state_dict(model, optimizer)}, checkpoint_id=f"{folder}/saved")
    model, optimizer = made()
    try:
        dcp.load({"optimizer": get_optimizer_state_dict(model, optimizer)}, checkpoint_id=f"{folder}/saved")
        print("loaded")
    except dcp.api.CheckpointException as error:
        print(next(line for line in str(error).splitlines() if line.startswith("RuntimeError")))
    dist.destroy_process_group()
