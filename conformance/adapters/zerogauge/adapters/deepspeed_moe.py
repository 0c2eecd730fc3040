# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's mixture of experts with ZeRO: its MoE layer puts experts on the ranks of an expert group. No tokens are
routed; each expert gets the gradients of the case."""
import torch
from deepspeed.moe.layer import MoE
from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer

from zerogauge.adapters.deepspeed_zero import DeepSpeed
from zerogauge.pytorch import DTYPES, Model, TorchAdapter, Uses


class Experts(Uses):
    """A MoE layer with this rank's experts. by_expert: names by expert, with as many parameters in each."""

    def __init__(self, model, by_expert, mesh):
        super().__init__(model, [])
        expert = torch.nn.ParameterList(torch.empty(0, device=TorchAdapter.device) for _ in by_expert[0])
        self.moe, self.by_expert = MoE(1, expert, num_experts=mesh.experts, ep_size=mesh.expert), by_expert
        self.moe.deepspeed_moe.gate.requires_grad_(False)
        for path, parameter in self.held().items():
            parameter.data = model.by_name[path].detach()
            model.by_name[path] = parameter

    def held(self):
        experts = zip(self.by_expert, self.moe.deepspeed_moe.experts.deepspeed_experts)
        return {name: parameter for names, expert in experts for name, parameter in zip(names, expert)}


class ExpertModel(Model):
    def __init__(self, case, dtype):
        by_expert = {}
        for p in case.params:
            expert = case.mesh.expert_of(p["name"])
            if expert is not None and case.mesh.holds(p["name"], case.rank):
                by_expert.setdefault(expert, []).append(p["name"])
        super().__init__(case, dtype, apart=sum(by_expert.values(), []))
        if by_expert:
            self.units.append(Experts(self, list(by_expert.values()), case.mesh))
            self.number()


class DeepSpeedMoE(DeepSpeed):
    def model_of(self, case):
        return ExpertModel(case, DTYPES[case.precision])

    def optimizer_groups(self, by_name, decoupled):
        groups = [{"name": f"group {i}", **group} for i, group in enumerate(super().optimizer_groups(by_name, decoupled))]
        return split_params_into_different_moe_groups_for_optimizer(groups)

    def state(self):
        tensors, t = super().state()
        return self.gathered(tensors), t


if __name__ == "__main__":
    DeepSpeedMoE.main()
