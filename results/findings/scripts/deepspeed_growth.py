# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 deepspeed==0.19.8
"""Stages 1 to 3 in fp16 give Adam half the gradient in the step after which the loss scale grows.

The loss is multiplied by the old scale, and its gradient, which is 1, is divided by the new one."""
import os, sys
os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "0"}
try:
    import deepspeed, torch
except ImportError as missing:
    sys.exit(print(missing) or 77)

deepspeed.accelerator.get_accelerator().is_fp16_supported = lambda: True  # the CPU computes it all the same
deepspeed.init_distributed(dist_backend="gloo")
expected, actual = {stage: [1.0] * 5 for stage in (1, 2, 3)}, {1: [], 2: [], 3: []}
for stage, gradients in actual.items():
    model = torch.nn.Linear(4, 1, bias=False).half()
    engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_batch_size": 1, "gradient_clipping": 0, "zero_optimization": {"stage": stage},
        "fp16": {"enabled": True, "initial_scale_power": 4, "loss_scale_window": 2},
        "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "betas": [0.0, 0.9], "torch_adam": True}}})[0]
    for _ in expected[stage]:
        engine.backward(engine(torch.ones(1, 4).half()).sum())
        engine.step()  # with beta1 = 0 exp_avg is the gradient
        gradients.append(deepspeed.utils.safe_get_full_optimizer_state(model.weight, "exp_avg")[0, 0].item())
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
