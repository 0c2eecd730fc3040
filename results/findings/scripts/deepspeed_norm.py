# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 deepspeed==0.19.8
"""Stages 1 and 2: the norm of subnormal gradients is 0.

The sum of their squares underflows in fp32. Four gradients of 2^-120 have the norm 2^-119."""
import os, sys
os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "0"}
try:
    import deepspeed, torch
except ImportError as missing:
    sys.exit(print(missing) or 77)

deepspeed.init_distributed(dist_backend="gloo")
expected, actual = {stage: 2.0**-119 for stage in (1, 2)}, {}
for stage in expected:
    model = torch.nn.Linear(4, 1, bias=False).bfloat16()
    engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_batch_size": 1, "gradient_clipping": 1, "bf16": {"enabled": True}, "zero_optimization": {"stage": stage},
        "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}}})[0]
    engine.backward((engine(torch.ones(1, 4).bfloat16()).float() * 2.0**-120).sum())
    engine.step()
    actual[stage] = float(engine.get_global_grad_norm())
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
