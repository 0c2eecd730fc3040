# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 accelerate==1.15.0
"""On a CPU an FSDP plug-in is ignored without a message.

The processes are joined by DistributedDataParallel; each has all parameters, where a shard is one half."""
import os, sys
try:
    import torch
    from accelerate import Accelerator
    from accelerate.utils import FullyShardedDataParallelPlugin
except ImportError as missing:
    sys.exit(print(missing) or 77)

os.environ |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29513"}
rank = int(os.fork() == 0)  # this process and its child
os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
expected = "an error, or FSDPLinear with 5 of 10 parameters on rank 0"
try:
    accelerator = Accelerator(cpu=True, fsdp_plugin=FullyShardedDataParallelPlugin(fsdp_version=2))
    model = torch.nn.Linear(4, 2)
    model, optimizer = accelerator.prepare(model, torch.optim.Adam(model.parameters()))
    count = sum(getattr(p, "to_local", lambda p=p: p)().numel() for p in model.parameters())
    actual = f"{type(model).__name__} with {count} of 10 parameters on rank 0"
    accelerator.end_training()
except (ValueError, RuntimeError, NotImplementedError) as error:
    actual = expected if "cpu" in str(error).lower() else repr(error)
rank == 0 or os._exit(0)
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
