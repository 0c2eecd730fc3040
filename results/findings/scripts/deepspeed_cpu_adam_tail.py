# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 deepspeed==0.19.8
"""DeepSpeedCPUAdam rounds the last elements of a call otherwise than the rest.

The partition decides where a call ends, and so the bits. On a processor with AVX-512."""
import os, sys
os.environ["DS_ACCELERATOR"] = "cpu"
try:
    import torch
    from deepspeed.ops.adam import DeepSpeedCPUAdam
except ImportError as missing:
    sys.exit(print(missing) or 77)

gradients = torch.randn(20, 1000, generator=torch.Generator().manual_seed(1))


def exp_avg(cuts):
    parameters = [torch.nn.Parameter(part.clone()) for part in torch.ones(1000).tensor_split(cuts)]
    optimizers = [DeepSpeedCPUAdam([p], lr=0.01) for p in parameters]
    for gradient in gradients:
        for optimizer, p, part in zip(optimizers, parameters, gradient.tensor_split(cuts)):
            p.grad = part.clone()
            optimizer.step()
    return torch.cat([optimizer.state[p]["exp_avg"] for optimizer, p in zip(optimizers, parameters)])


expected, actual = (f"{count} of 1000 elements differ" for count in (0, int((exp_avg([]) != exp_avg([500])).sum())))
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
