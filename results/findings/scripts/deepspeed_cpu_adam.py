# SPDX-License-Identifier: Apache-2.0
"""DeepSpeedCPUAdam without any training: its bits depend on where a call ends, and on where a process ended.
DeepSpeed 0.19.8, on a processor with AVX-512."""
import os

os.environ["DS_ACCELERATOR"] = "cpu"
import torch
from deepspeed.ops.adam import DeepSpeedCPUAdam

STEPS, ELEMENTS = 20, 1000
GRADIENTS = torch.randn(STEPS, ELEMENTS, generator=torch.Generator().manual_seed(1))


def trained(cuts, resume_at=None):
    """Parameters and moments after all steps. cuts: where the calls end; resume_at: a new optimizer takes over there."""
    parameters = [torch.nn.Parameter(torch.ones(b - a)) for a, b in zip([0, *cuts], [*cuts, ELEMENTS])]
    optimizers = [DeepSpeedCPUAdam([p], lr=0.01) for p in parameters]
    for step, gradient in enumerate(GRADIENTS):
        if step == resume_at:
            states, optimizers = [o.state_dict() for o in optimizers], [DeepSpeedCPUAdam([p], lr=0.01) for p in parameters]
            for optimizer, state in zip(optimizers, states):
                optimizer.load_state_dict(state)
        for optimizer, p, part in zip(optimizers, parameters, gradient.tensor_split(cuts)):
            p.grad = part.clone()
            optimizer.step()
    return [torch.cat([o.state[p][kind] if kind else p.detach() for o, p in zip(optimizers, parameters)])
            for kind in (None, "exp_avg", "exp_avg_sq")]


def differing(a, b):
    return ", ".join(f"{int((x.view(torch.int32) != y.view(torch.int32)).sum())} {name}"
                     for name, x, y in zip(("parameters", "exp_avg", "exp_avg_sq"), a, b))


whole = trained([])
print(f"of {ELEMENTS} elements after {STEPS} steps differ from one call:")
print("  the same again:", differing(whole, trained([])))
print("  two calls of 496 and 504:", differing(whole, trained([496])))
print("  two calls of 500 and 500:", differing(whole, trained([500])))
print("  resumed after step 2:", differing(whole, trained([], 2)))
