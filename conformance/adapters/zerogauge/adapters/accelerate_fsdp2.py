# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Accelerate with its FSDP2 plug-in."""
import os

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, DistributedType, GradientState, PartialState
from accelerate.utils import FullyShardedDataParallelPlugin
from torch.distributed.fsdp import MixedPrecisionPolicy

from zerogauge.adapters.torch_wrap import refuse, refuse_load
from zerogauge.pytorch import DTYPES, Model, TorchAdapter, hyper_parameters


class AccelerateFSDP2(TorchAdapter):
    def build(self, case):
        refuse(case, "fsdp2")
        self.model = Model(case, torch.float32)
        low = {"param_dtype": DTYPES[case.precision], "reduce_dtype": DTYPES[case.communication_dtype]}
        plugin = FullyShardedDataParallelPlugin(
            fsdp_version=2, reshard_after_forward=case.stage == 3, auto_wrap_policy="transformer_based_wrap",
            transformer_cls_names_to_wrap=["Uses"],
            mixed_precision_policy=MixedPrecisionPolicy(**low, cast_forward_inputs=False))
        os.environ["LOCAL_WORLD_SIZE"] = str(case.world)  # Accelerate reads it; torchrun sets it
        for shared in AcceleratorState, PartialState, GradientState:  # one per process, so that of the last case
            shared._reset_state()
        start = {"cpu": self.device.type == "cpu", "mixed_precision": case.precision if case.precision == "bf16" else "no"}
        # On the CPU the plug-in is ignored, and DDP trains the model. Otherwise nothing asks whether there is a GPU.
        if self.device.type == "cpu":
            PartialState(cpu=True).distributed_type = DistributedType.MULTI_GPU
        self.accelerator = Accelerator(fsdp_plugin=plugin, gradient_accumulation_steps=case.accumulation, **start)
        groups = self.optimizer_groups(self.model.by_name, "decoupled_weight_decay")
        self.wrapped, self.optimizer = self.accelerator.prepare(
            self.model, torch.optim.Adam(groups, **hyper_parameters(case, 0)))

    def micro_step(self, gradients):
        with self.accelerator.accumulate(self.wrapped):
            super().micro_step(gradients)

    def backward(self, loss):
        self.accelerator.backward(loss)

    def step(self):
        limit = self.case.gradient_clipping
        norm = self.accelerator.clip_grad_norm_(self.wrapped.parameters(), limit) if limit else None
        self.optimizer.step()
        self.optimizer.zero_grad()
        return False, None, getattr(norm, "full_tensor", lambda: norm)()

    def save(self, path):
        self.accelerator.save_state(str(path))

    def load(self, path, weights_only):
        refuse_load(self.case, weights_only)
        self.accelerator.load_state(str(path))


if __name__ == "__main__":
    AccelerateFSDP2.main()
