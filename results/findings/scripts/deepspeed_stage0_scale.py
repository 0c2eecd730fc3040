# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 deepspeed==0.19.8
"""Stage 0 in fp16 divides gradients by a loss scale that the loss was not multiplied by.

engine.backward() scales the loss for a ZeROOptimizer alone, and stage 0 has none. The gradient is 1."""
import os, sys
os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "0"}
try:
    import deepspeed, torch
except ImportError as missing:
    sys.exit(print(missing) or 77)

deepspeed.accelerator.get_accelerator().is_fp16_supported = lambda: True  # the CPU computes it all the same
deepspeed.init_distributed(dist_backend="gloo")
model = torch.nn.Linear(4, 1, bias=False).half()
engine, optimizer, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
    "train_batch_size": 1, "gradient_clipping": 0, "zero_optimization": {"stage": 0},
    "fp16": {"enabled": True, "loss_scale": 128},
    "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "betas": [0.0, 0.9], "torch_adam": True}}})
engine.backward(engine(torch.ones(1, 4).half()).sum())
engine.step()
state = next(iter(optimizer.optimizer.state.values()))
expected, actual = 1.0, state["exp_avg"].flatten()[0].item()  # with beta1 = 0 exp_avg is the gradient
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
