# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 deepspeed==0.19.8
"""DeepSpeedCPUAdam has other powers of beta after resuming: once pow, in place of running products."""
import os, sys
os.environ["DS_ACCELERATOR"] = "cpu"
try:
    import torch
    from deepspeed.ops.adam import DeepSpeedCPUAdam
except ImportError as missing:
    sys.exit(print(missing) or 77)

gradients = torch.randn(20, 1000, generator=torch.Generator().manual_seed(1))


def trained(resume_at):
    p = torch.nn.Parameter(torch.ones(1000))
    optimizer = DeepSpeedCPUAdam([p], lr=0.01)
    for step, p.grad in enumerate(gradients):
        if step == resume_at:
            saved, optimizer = optimizer.state_dict(), DeepSpeedCPUAdam([p], lr=0.01)
            optimizer.load_state_dict(saved)
        optimizer.step()
    return p.detach()


expected, actual = (f"{count} of 1000 elements differ" for count in (0, int((trained(None) != trained(2)).sum())))
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
