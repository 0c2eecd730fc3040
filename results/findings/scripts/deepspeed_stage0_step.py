# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 deepspeed==0.19.8
"""Stage 0 in bf16 and fp16 makes an optimizer step before training.

The constructor calls the optimizer's step() with gradients of zero: t is one too large, and masters have decayed."""
import os, sys
os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "0"}
try:
    import deepspeed, torch
except ImportError as missing:
    sys.exit(print(missing) or 77)

deepspeed.accelerator.get_accelerator().is_fp16_supported = lambda: True  # the CPU computes it all the same
deepspeed.init_distributed(dist_backend="gloo")
expected, actual = {key: "t 0, master weight 1.000000" for key in ("bf16", "fp16")}, {}
for key, dtype in ("bf16", torch.bfloat16), ("fp16", torch.half):
    model = torch.nn.Linear(4, 1, bias=False).to(dtype)
    model.weight.data.fill_(1)
    optimizer = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_batch_size": 1, "zero_optimization": {"stage": 0}, key: {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.1, "torch_adam": True}}})[1]
    t = max([float(state["step"]) for state in optimizer.optimizer.state.values()], default=0)
    actual[key] = f"t {t:g}, master weight {optimizer.fp32_groups[0][0].flatten()[0]:.6f}"
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
