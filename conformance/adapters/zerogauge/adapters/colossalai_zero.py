# SPDX-License-Identifier: Apache-2.0
"""ColossalAI's LowLevelZeroOptimizer: stages 1 and 2."""
import contextlib

import zerogauge.adapters.colossalai_start  # noqa: F401  first: it makes the rest importable
import numpy as np
import torch
from colossalai.zero import LowLevelZeroOptimizer

from zerogauge import MOMENTS, Shard, Unsupported
from zerogauge.pytorch import DTYPES, Model, TorchAdapter, hyper_parameters


class LowLevelZero(TorchAdapter):
    def build(self, case):
        scale = case.loss_scale
        if case.accumulation_dtype != case.precision:
            raise Unsupported("micro-steps are added in the model's dtype")
        if case.precision == "fp16" and scale["kind"] != "dynamic" or case.precision != "fp16" and scale["kind"] != "none":
            raise Unsupported("fp16 has a dynamic loss scale, all else has none")
        if case.overflow_check and case.precision != "fp16":
            raise Unsupported("an overflow is looked for in fp16 alone")
        scaler = {} if scale["kind"] == "none" else {
            "initial_scale": scale["initial_scale"], "growth_interval": scale["window"],
            "hysteresis": scale["hysteresis"], "min_scale": scale["min_scale"], "max_scale": 2.0**32}
        self.model = Model(case, DTYPES[case.precision])
        groups = self.optimizer_groups(self.model.by_name, "decoupled_weight_decay")
        self.optimizer = LowLevelZeroOptimizer(
            torch.optim.Adam(groups, **hyper_parameters(case, 0)), partition_grad=case.stage == 2,
            communication_dtype=DTYPES[case.communication_dtype], reduce_bucket_size=case.buckets["reduce"],
            clip_grad_norm=case.gradient_clipping, **scaler)

    def backward(self, loss):
        late = self.case.stage == 1 and not self.is_last  # stage 2 reduces in each micro-step
        with self.optimizer.no_sync() if late else contextlib.nullcontext():
            self.optimizer.backward(loss / self.case.accumulation)

    def step(self):
        scaler, before = self.optimizer.mixed_precision_mixin, self.updates()
        scaled = self.case.loss_scale["kind"] != "none"
        scale = scaler.loss_scale if scaled else 1  # of the gradients, and so of their norm
        self.optimizer.step()
        self.optimizer.zero_grad()
        skipped, norm = self.updates() == before, self.optimizer.get_grad_norm()
        return scaled and skipped, scaler.loss_scale if scaled else None, None if skipped else np.float64(norm / scale)

    def updates(self):
        return max((int(state["step"]) for state in self.optimizer.optim.state.values()), default=0)

    def state(self):
        tensors = {f"param/{name}": p for name, p in self.model.by_name.items() if not p.requires_grad}
        for name, p in self.model.by_name.items():
            if p.requires_grad:
                master = self.optimizer.working_to_master_param[id(p)]
                held = {"param": master, **self.optimizer.optim.state.get(master, {})}
                tensors |= {f"{kind}/{name}": Shard(held[kind], self.case.rank * master.numel())
                            for kind in ("param", *MOMENTS) if kind in held}
        return self.gathered(tensors), self.updates()

    def save(self, path):
        saved = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        if self.case.rank == 0:
            torch.save(saved, path / "saved.pt")

    def load(self, path, weights_only):
        saved = torch.load(path / "saved.pt")
        self.model.load_state_dict(saved["model"])
        self.optimizer.update_master_params(self.model)  # as ColossalAI's own plugin does
        if not weights_only:
            self.optimizer.load_state_dict(saved["optimizer"])


if __name__ == "__main__":
    LowLevelZero.main()
