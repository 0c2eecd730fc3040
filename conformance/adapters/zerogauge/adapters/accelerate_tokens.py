# SPDX-License-Identifier: Apache-2.0
"""A loop with Hugging Face Accelerate and DistributedDataParallel that weighs by tokens, as Accelerate's guide to gradient
accumulation has it: all tokens of the step are counted, over ranks, before the first backward."""
import contextlib

import accelerate
import torch
from accelerate.state import AcceleratorState, GradientState, PartialState

from zerogauge.pytorch import Model, TorchAdapter, hyper_parameters


class AccelerateTokens(TorchAdapter):
    claims = {"contract": 1, "name": "Accelerate, a loop by tokens", "version": accelerate.__version__, "stages": [0],
              "worlds": [1, 2, 4], "precisions": ["fp32"], "offload_optimizer": ["none"], "offload_param": ["none"],
              "knobs": [], "clip_form": "torch", "unused": "untouched", "optional": ["token_mean"],
              "features": ["accumulation", "clipping", "l2", "lr_schedule", "groups", "tied", "frozen"]}

    def build(self, case):
        for shared in AcceleratorState, PartialState, GradientState:  # one per process, so that of the last case
            shared._reset_state()
        self.accelerator = accelerate.Accelerator(cpu=self.device.type == "cpu",
                                                  gradient_accumulation_steps=case.accumulation)
        self.model = Model(case, torch.float32)
        groups = self.optimizer_groups(self.model.by_name, "decoupled_weight_decay")
        self.wrapped, self.optimizer = self.accelerator.prepare(
            self.model, torch.optim.Adam(groups, **hyper_parameters(case, 0)))

    def micro_steps(self, step):
        case, batches = self.case, super().micro_steps(step)
        counts = [case.token_count(step, micro) if case.tokens else 1 for micro in range(len(batches))]
        self.items = self.accelerator.gather(torch.tensor(sum(counts), device=self.device)).sum().clamp(min=1)
        self.losses = torch.zeros((), device=self.device)
        return batches

    def micro_step(self, gradients):
        with contextlib.nullcontext() if self.is_last else self.accelerator.no_sync(self.wrapped):
            super().micro_step(gradients)

    def backward(self, loss):
        self.losses += loss.detach()
        # Accelerate divides by the micro-steps, and DistributedDataParallel by the ranks.
        scale = self.accelerator.gradient_accumulation_steps * self.accelerator.num_processes
        self.accelerator.backward(loss * scale / self.items)

    def step(self):
        limit = self.case.gradient_clipping
        norm = self.accelerator.clip_grad_norm_(self.wrapped.parameters(), limit) if limit else None
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.loss = (self.accelerator.gather(self.losses).sum() / self.items).item()
        return False, None, norm


if __name__ == "__main__":
    AccelerateTokens.main()
