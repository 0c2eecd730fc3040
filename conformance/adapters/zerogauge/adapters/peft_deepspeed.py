# SPDX-License-Identifier: Apache-2.0
"""PEFT's LoRA under DeepSpeed's stages."""
from deepspeed.utils import set_z3_leaf_modules

from zerogauge.adapters.deepspeed_zero import DeepSpeed
from zerogauge.adapters.peft_model import Adapted, LoraModel
from zerogauge.pytorch import DTYPES


class PeftDeepSpeed(DeepSpeed):
    def model_of(self, case):
        model = LoraModel(case, DTYPES[case.precision])
        if case.stage == 3:  # a unit computes with its layer's parameters, without a call of the layer
            set_z3_leaf_modules(model, [Adapted])
        return model


if __name__ == "__main__":
    PeftDeepSpeed.main()
