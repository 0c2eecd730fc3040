# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 deepspeed==0.19.8
"""Stage 3, and offload to the CPU, train a parameter that a step does not use with its last gradient.

Gradients are 1, betas [0.5, 0.9]: after a step of both and one of the first alone the second's exp_avg is 0.25."""
import os, sys
os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "0"}
try:
    import deepspeed, torch
except ImportError as missing:
    sys.exit(print(missing) or 77)

deepspeed.init_distributed(dist_backend="gloo")
expected, actual = {(3, "none"): 0.25, (1, "cpu"): 0.25, (2, "cpu"): 0.25, (3, "cpu"): 0.25}, {}
for stage, device in expected:
    model = torch.nn.ModuleList(torch.nn.Linear(4, 4, bias=False) for _ in range(2))
    model.forward = lambda x, used: sum(layer(x).sum() for layer in model[:used])
    engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_batch_size": 1, "gradient_clipping": 0, "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": {"stage": stage, "offload_optimizer": {"device": device}},
        "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "betas": [0.5, 0.9], "torch_adam": True}}})[0]
    for used in 2, 1:
        engine.backward(engine(torch.ones(1, 4), used))
        engine.step()
    actual[stage, device] = deepspeed.utils.safe_get_full_optimizer_state(model[1].weight, "exp_avg")[0, 0].item()
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
