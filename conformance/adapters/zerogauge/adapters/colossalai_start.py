# SPDX-License-Identifier: Apache-2.0
"""Makes ColossalAI importable without what only its other optimizers need, and takes the CPU for its accelerator, which
must be called cuda."""
import sys
import types

import torch

for name, members in {"galore_torch": ("GaLoreAdafactor", "GaLoreAdamW"), "bitsandbytes": (), "bitsandbytes.optim": (),
                      "bitsandbytes.optim.optimizer": ("Optimizer2State",)}.items():
    sys.modules[name] = types.ModuleType(name)
    for member in members:
        setattr(sys.modules[name], member, type(member, (torch.optim.Optimizer,), {}))

from colossalai.accelerator import api, cpu_accelerator  # noqa: E402


class OnCPU(cpu_accelerator.CpuAccelerator):
    name = "cuda"
    device = torch.device("cpu")

    def get_current_device(self):
        return self.device

    def device_count(self):
        return 1

    def synchronize(self, device=None):
        """All is done."""

    Stream, stream, current_stream = (staticmethod(getattr(torch.cpu, name)) for name in
                                      ("Stream", "stream", "current_stream"))


api.set_accelerator(OnCPU())
