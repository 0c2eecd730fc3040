# SPDX-License-Identifier: Apache-2.0
"""PyTorch: unsharded, ddp, zero1 (ZeroRedundancyOptimizer), fsdp1, fsdp2. 16-bit cases keep fp32 parameters."""
import contextlib

import torch
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook, fp16_compress_hook
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import torch_state
from zerogauge_adapter import DTYPES, Model, Unsupported, main


class Trainer:
    def __init__(self, case, args):
        self.case, self.mode, self.applied, scale, Adam = case, args.mode, 0, case.loss_scale, torch.optim.Adam
        if case.accumulation > 1 and case.accumulation_dtype != "fp32":
            raise Unsupported("micro-steps are added in fp32")
        refused = {"fsdp1": "scalars", "fsdp2": "scalars and empty tensors"}.get(self.mode, "")
        if any(not p["shape"] and "scalars" in refused or 0 in p["shape"] and "empty" in refused for p in case.params):
            raise Unsupported(f"refuses parameters that are {refused}")
        self.model = Model(case, torch.float32)
        self.paths = {self.model.name_of[p]: path for path, p in self.model.named_parameters()}
        self.wrapped = self.wrap(self.model, case.communication_dtype)
        groups = case.optimizer_groups(dict(zip(self.paths, self.wrapped.parameters())), "decoupled_weight_decay")
        self.optimizer = (ZeroRedundancyOptimizer(groups, Adam, **case.hyper_parameters(0)) if self.mode == "zero1"
                          else Adam(groups, **case.hyper_parameters(0)))
        self.optimizer.register_step_post_hook(lambda *_: setattr(self, "applied", self.applied + 1))
        Scaler = ShardedGradScaler if self.mode == "fsdp1" else torch.amp.GradScaler
        self.scaler = Scaler("cpu", scale.get("initial_scale", scale.get("scale", 1.0)), enabled=case.overflow_check,
                             growth_interval=scale.get("window", 1))

    def wrap(self, model, send):
        low = {"param_dtype": self.case.dtype, "reduce_dtype": DTYPES[send], "cast_forward_inputs": False}
        if self.mode == "fsdp1":
            options = {"use_orig_params": True, "mixed_precision": MixedPrecision(**low), "device_id": "cpu"}
            for i, unit in enumerate(model.units):
                model.units[i] = FullyShardedDataParallel(unit, **options)
            model = FullyShardedDataParallel(model, **options)
        elif self.mode == "fsdp2":
            for module in [*model.units, model]:
                fully_shard(module, mp_policy=MixedPrecisionPolicy(**low))
        elif self.mode != "unsharded":
            model = DistributedDataParallel(model, bucket_cap_mb=self.case.buckets["reduce"] * 4 / 2**20,
                                            find_unused_parameters=not all(p["used"] for p in self.case.params))
            if send != "fp32":
                model.register_comm_hook(None, bf16_compress_hook if send == "bf16" else fp16_compress_hook)
        return model

    def backward(self, gradients, last):
        with self.wrapped.no_sync() if self.mode in ("ddp", "zero1") and not last else contextlib.nullcontext():
            self.scaler.scale(self.wrapped(gradients) / self.case.accumulation).backward()

    def step(self):
        before, norm, limit = self.applied, None, self.case.gradient_clipping
        self.scaler.unscale_(self.optimizer)
        if limit:
            norm = (self.wrapped.clip_grad_norm_(limit) if self.mode == "fsdp1" else
                    torch.nn.utils.clip_grad_norm_(self.wrapped.parameters(), limit))
        self.scaler.step(self.optimizer)
        self.scaler.update(None if self.case.loss_scale["kind"] == "dynamic" else self.scaler.get_scale())
        self.optimizer.zero_grad()
        return self.applied == before, self.scaler.get_scale(), getattr(norm, "full_tensor", lambda: norm)()

    def state(self):
        self.whole = torch_state.whole(self.wrapped, self.optimizer, self.scaler, self.applied)
        return torch_state.answer_of(self.whole, self.paths, self.case.trained)

    def save(self, path):
        torch.save(self.whole, path / f"rank-{self.case.rank}.pt")

    def load(self, path, weights_only):
        saved = torch.load(path / "rank-0.pt")  # the one that is complete
        self.applied = int(torch_state.restore(saved, self.wrapped, self.optimizer, self.scaler, weights_only))


if __name__ == "__main__":
    main(Trainer, mode=["unsharded", "ddp", "zero1", "fsdp1", "fsdp2"])
