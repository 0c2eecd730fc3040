# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's Muon, stages 0 to 3: matrices of a group of Muon by Muon, all else by AdamW."""
import os

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")  # compiling its kernels takes minutes
import deepspeed  # noqa: E402
from zerogauge.adapters.deepspeed_zero import DeepSpeed  # noqa: E402
from zerogauge.pytorch import Unsupported  # noqa: E402


class DeepSpeedMuon(DeepSpeed):
    claims = {"contract": 1, "name": "DeepSpeed's Muon", "version": deepspeed.__version__,
              "stages": [0, 1, 2, 3], "worlds": [1, 2, 3, 4],
              "precisions": ["fp32", "bf16", "fp16"], "offload_optimizer": ["none", "cpu"], "offload_param": ["none"],
              "clip_form": "deepspeed", "scaler": "deepspeed", "optional": ["muon"],
              "features": ["accumulation", "clipping", "static_loss_scale", "dynamic_loss_scale", "overflow_check",
                           "lr_schedule", "groups"]}

    def build(self, case):
        matrices = [group for group in case.groups if group["optimizer"] == "Muon"]
        if any(not group["nesterov"] or group["adjust_lr_fn"] != "original" for group in matrices):
            raise Unsupported("Muon is Nesterov's, with the original rate")
        first = case.groups[0]
        adam = next(group for group in case.groups if group not in matrices)
        # config_of takes its keys from the first group, and each group has its own.
        case.groups[0] = adam
        case.hints["reduce_scatter"] &= case.stage < 3  # which DeepSpeed refuses in stage 3
        case.deepspeed_keys = {"optimizer": {"type": "Muon", "params": {
            "lr": case.lr(0, 1), "betas": adam["betas"], "eps": adam["eps"], "torch_adam": True,
            "momentum": first["momentum"], "ns_method": "standard"}}}
        case.muon_group = {**first, "bias_correction": True}
        super().build(case)

    def optimizer_groups(self, by_name, decoupled):
        self.case.groups[0] = self.case.muon_group
        groups = super().optimizer_groups(by_name, decoupled)
        muon = {id(p) for group in groups if "momentum" in group for p in group["params"]}
        # By name DeepSpeed takes every matrix that is no embedding and no head.
        deepspeed.set_optimizer_flags = lambda _, model: [
            setattr(p, key, value) for p in model.parameters()
            for key, value in {"use_muon": id(p) in muon, "muon_num_heads": None, "muon_head_dim": None}.items()]
        return groups

    def read(self, p, t):
        return super().read(p, 0)[:1] if p.use_muon else super().read(p, t)

    def momentum(self, p):
        """What this rank has of it: a whole matrix, or nothing."""
        zero = self.optimizer
        if self.case.stage == 0:
            return zero.state.get(p, {}).get("momentum_buffer")
        for index, members in enumerate(zero.params_in_partition):
            before = 0
            for member in members:
                if member is p:
                    state = zero.optimizer.state[zero.optimizer.param_groups[index]["params"][0]]
                    flat = state.get("momentum_buffer")
                    return None if flat is None else flat.narrow(0, before, p.numel()).view(p.shape)
                before += member.numel()
        return None

    def state(self):
        tensors, t = super().state()
        held = {}
        for name, p in self.model.by_name.items():
            if self.case.group_of[name]["optimizer"] != "Muon":
                continue
            tensors = {key: tensor for key, tensor in tensors.items() if key not in
                       (f"exp_avg/{name}", f"exp_avg_sq/{name}")}
            momentum = self.momentum(p)
            if momentum is not None:
                held[f"momentum/{name}"] = momentum.float()
        return tensors | self.gathered(held), t


if __name__ == "__main__":
    DeepSpeedMuon.main()
