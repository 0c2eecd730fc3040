# SPDX-License-Identifier: Apache-2.0
"""PEFT's LoRA under FSDP2."""
import torch

from zerogauge.adapters.peft_model import LoraModel
from zerogauge.adapters.torch_ddp_fsdp import Torch


class PeftFSDP2(Torch):
    options = {"mode": ["fsdp2"], "adam": ["single"], "parameters": ["fp32"]}

    def model_of(self, case):
        return LoraModel(case, torch.float32)


if __name__ == "__main__":
    PeftFSDP2.main()
