# SPDX-License-Identifier: Apache-2.0
"""bitsandbytes' AdamW8bit on a CPU: an element whose gradient is always zero gets a first moment, and moves."""
import bitsandbytes
import torch

p = torch.nn.Parameter(torch.ones(256))
optimizer = bitsandbytes.optim.AdamW8bit([p], lr=0.1, weight_decay=0, min_8bit_size=1)
for step in (1, 2, 3):
    p.grad = torch.ones(256)
    p.grad[0] = 0
    optimizer.step()
    state = optimizer.state[p]
    m, v = (bitsandbytes.functional.dequantize_blockwise(
        state[f"state{i}"], absmax=state[f"absmax{i}"], code=state[f"qmap{i}"], blocksize=256)[0].item() for i in "12")
    print(f"gradient 0, step {step}: m {m:.3g}, v {v:.3g}, moved by {1 - p[0].item():.3g}; expected 0 0 0")
