# SPDX-License-Identifier: Apache-2.0
"""The model of a case of LoRA, made by PEFT: it freezes the matrices and adds the adapters."""
import torch
from peft import LoraConfig, get_peft_model

from zerogauge.pytorch import Model, Uses


class Adapted(Uses):
    """A linear layer that PEFT replaces by one with adapters A and B."""

    def __init__(self, model, names):
        super().__init__(model, [])
        self.matrix_and_adapters = names
        rows, columns = model.by_name[names[0]].shape
        self.linear = torch.nn.Linear(columns, rows, bias=False)
        self.linear.weight = model.by_name[names[0]]

    def held(self):
        parts = self.linear.base_layer, self.linear.lora_A["default"], self.linear.lora_B["default"]
        return {name: part.weight for name, part in zip(self.matrix_and_adapters, parts)}


class LoraModel(Model):
    input_requires_grad = True  # as enable_input_require_grads of Transformers makes it

    def __init__(self, case, dtype):
        layers = {}
        for p in case.params:
            if p.get("adapts") and len(p["shape"]) == 2:
                layers.setdefault(p["adapts"], [p["adapts"]]).append(p["name"])
        super().__init__(case, dtype, apart=sum(layers.values(), []))
        for names in layers.values():
            self.units.append(Adapted(self, names))
        if not layers:
            return
        trained = {p: p.requires_grad for p in self.parameters()}
        rank = self.by_name[next(iter(layers.values()))[1]].shape[0]
        self.peft = [get_peft_model(self, LoraConfig(r=rank, target_modules=["linear"]))]  # in a list: it holds self
        for p, was_trained in trained.items():  # PEFT freezes all but its own
            p.requires_grad_(was_trained)
        for unit in self.units:
            for name, parameter in unit.held().items():
                parameter.data.copy_(self.by_name[name].data)
                self.by_name[name] = parameter
        self.number()
