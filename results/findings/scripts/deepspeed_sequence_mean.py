# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed on two ranks that share a micro-batch, whose gradients are 1 and 2. Their sum is 3, at stages 1 and 2;
stage 3 averages where reduce_scatter is on; with mesh_param nothing is summed. DeepSpeed 0.19.8."""
import os

import torch.multiprocessing

os.environ |= {"DS_ACCELERATOR": "cpu", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29519"}


def moment(rank, stage, reduce_scatter, mesh):
    import deepspeed
    from deepspeed.runtime.sequence_parallel import parallel_state_sp
    from deepspeed.utils import safe_get_full_optimizer_state
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    deepspeed.utils.logger.setLevel("ERROR")
    deepspeed.init_distributed(dist_backend="gloo")
    parallel_state_sp.initialize_sequence_parallel(2)
    zero = {"stage": stage, "reduce_scatter": reduce_scatter}
    config = {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0, "zero_optimization": zero,
              "optimizer": {"type": "Adam", "params": {"lr": 0.1, "betas": [0.0, 0.9], "torch_adam": True}}}
    model, how = torch.nn.Linear(4, 4, bias=False), {"mesh_param": (1, 2)} if mesh else {"mpu": parallel_state_sp}
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config, **how)
    engine.backward(engine(torch.ones(1, 4) * (rank + 1)).sum())
    engine.step()
    m = safe_get_full_optimizer_state(engine.module.weight, "exp_avg")[0, 0].item()
    way = f"reduce_scatter {reduce_scatter}, {'mesh_param' if mesh else 'mpu'}"
    print(f"stage {stage}, {way}, rank {rank}: {m:g}\n", end="", flush=True)


if __name__ == "__main__":
    for row in (1, True, False), (2, True, False), (3, True, False), (3, False, False), (1, True, True):
        torch.multiprocessing.spawn(moment, row, nprocs=2)
