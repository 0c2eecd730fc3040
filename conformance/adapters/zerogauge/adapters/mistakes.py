# SPDX-License-Identifier: Apache-2.0
"""FSDP2 in a loop as one writes it by hand, with accumulation, clipping and a loss scale. --mistake makes one of five
that trainers are known for; docs/trainers.md shows the verdicts."""
from zerogauge.pytorch import DTYPES, Model, TorchAdapter  # first: --check says what it imports before it does

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from zerogauge.adapters.torch_wrap import refuse


class Mistakes(TorchAdapter):
    claims = {"contract": 1, "name": "FSDP2, a loop by hand", "version": torch.__version__, "stages": [2, 3],
              "worlds": [1, 2, 4], "precisions": ["fp32", "bf16", "fp16"], "communication_dtypes": ["precision"],
              "offload_optimizer": ["none"], "offload_param": ["none"], "accumulation_dtypes": ["precision", "fp32"],
              "clip_form": "torch", "unused": "untouched",
              "features": ["accumulation", "clipping", "static_loss_scale", "overflow_check", "lr_schedule", "groups"]}
    options = {"mistake": ["none", "loss", "zero", "norm", "unscale", "masters"]}

    def build(self, case):
        refuse(case, "fsdp2")
        self.mistake, self.scale = self.arguments.mistake, case.loss_scale.get("scale", 1.0)
        self.model = Model(case, DTYPES[case.precision] if self.mistake == "masters" else torch.float32)
        low = MixedPrecisionPolicy(param_dtype=DTYPES[case.precision], reduce_dtype=DTYPES[case.communication_dtype],
                                   cast_forward_inputs=False)
        for module in [*self.model.units, self.model]:
            fully_shard(module, reshard_after_forward=case.stage == 3, mp_policy=low)
        self.optimizer = torch.optim.Adam(self.optimizer_groups(self.named(self.model), "decoupled_weight_decay"))

    def backward(self, loss):
        if self.mistake == "zero":  # between micro-batches
            self.optimizer.zero_grad()
        micro_steps = 1 if self.mistake == "loss" else self.case.accumulation
        (loss * self.scale / micro_steps).backward()

    def unscale(self):
        for p in self.model.parameters():
            if p.grad is not None:
                p.grad /= self.scale

    def step(self):
        if self.mistake != "unscale":
            self.unscale()
        gradients, limit = [p.grad for p in self.model.parameters() if p.grad is not None], self.case.gradient_clipping
        norm = torch.nn.utils.get_total_norm(
            [gradient.to_local() if self.mistake == "norm" else gradient for gradient in gradients])
        norm = getattr(norm, "full_tensor", lambda: norm)()
        if limit:
            torch.nn.utils.clip_grads_with_norm_(self.model.parameters(), limit, norm)
        if self.mistake == "unscale":
            self.unscale()
        skipped = not norm.isfinite()
        if not skipped:
            self.optimizer.step()
        self.optimizer.zero_grad()
        return skipped, self.scale, norm if limit else None


if __name__ == "__main__":
    Mistakes.main()
