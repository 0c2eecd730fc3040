# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0; pip install --no-deps bitsandbytes==0.50.2
"""AdamW8bit: an element whose gradient is always zero gets a first moment, and moves.

None of the points that a fraction is rounded to is 0."""
import sys
try:
    import bitsandbytes, torch
except ImportError as missing:
    sys.exit(print(missing) or 77)

p = torch.nn.Parameter(torch.ones(256))
optimizer = bitsandbytes.optim.AdamW8bit([p], lr=0.1, weight_decay=0, min_8bit_size=1)
for _ in range(3):
    p.grad = torch.ones(256)
    p.grad[0] = 0
    optimizer.step()
expected, actual = 1.0, p[0].item()
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
