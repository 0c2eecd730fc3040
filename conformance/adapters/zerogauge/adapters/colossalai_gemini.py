# SPDX-License-Identifier: Apache-2.0
"""ColossalAI's Gemini: stage 3, in bf16, with optimizer states on the host, whose Adam is then PyTorch's operations."""
import zerogauge.adapters.colossalai_start  # noqa: F401  first: it makes the rest importable
import torch
from colossalai.accelerator import get_accelerator
from colossalai.kernel.kernel_loader import CPUAdamLoader
from colossalai.nn.optimizer import HybridAdam
from colossalai.zero import GeminiDDP, GeminiOptimizer
from colossalai.zero.gemini.chunk import Chunk, ChunkManager

from zerogauge import MOMENTS, Shard, Unsupported
from zerogauge.pytorch import Model, TorchAdapter, hyper_parameters


class Device:
    """What chunks compare a device with to see that it is the accelerator. Its tensors are the CPU's."""
    type = "cuda"

    def __eq__(self, other):
        return other == get_accelerator().device


def take_cpu():
    """The accelerator is the CPU with an index, the host the CPU without one."""
    get_accelerator().device = torch.device("cpu", 0)
    for owner, name in (Chunk, "shard_move"), (ChunkManager, "move_chunk"):
        def moved(self, *arguments, original=getattr(owner, name), **options):
            original(self, *(Device() if isinstance(one, torch.device) and one.index == 0 else one
                             for one in arguments), **options)
        setattr(owner, name, moved)
    # Serves fp16 alone, and is compiled with CUDA's headers.
    CPUAdamLoader.load = lambda loader: type("Kernel", (), {"CPUAdamOptimizer": staticmethod(lambda *_: None)})


take_cpu()


class Multiplied(Model):
    def local(self, name, parameter):
        return parameter * 1  # Gemini gathers for an operation: what is used later must be a copy


class Gemini(TorchAdapter):
    def build(self, case):
        if case.accumulation_dtype != "bf16" or case.communication_dtype != "bf16":
            raise Unsupported("gradients are added in bf16")
        if case.overflow_check:
            raise Unsupported("an overflow is looked for in fp16 alone")
        self.model, size = Multiplied(case, torch.float32), case.buckets["reduce"]
        self.wrapped = GeminiDDP(
            self.model, {case.world: {"chunk_size": size + -size % case.world, "keep_gathered": False}},
            offload_optim_frac=1.0, mixed_precision=torch.bfloat16, enable_async_reduce=False,
            enable_gradient_accumulation=case.accumulation > 1)
        adam = HybridAdam(self.optimizer_groups(self.model.by_name, "decoupled"), **hyper_parameters(case, 0),
                          adamw_mode=case.common("optimizer") == "AdamW")
        self.optimizer = GeminiOptimizer(adam, self.wrapped, max_norm=case.gradient_clipping)

    def backward(self, loss):
        self.optimizer.backward(loss / self.case.accumulation)

    def step(self):
        self.optimizer.step()
        return False, None, self.optimizer.get_grad_norm()

    def state(self):
        tensors = {f"param/{name}": p.float() for name, p in self.model.by_name.items()
                   if not p.requires_grad or p.numel() == 0}
        t = 0
        for number, fake in self.optimizer.id_to_fake_params.items():
            name = self.model.name_of[self.optimizer.id_to_real_params[number]]
            begin, offset, size = self.optimizer.get_offsets(number)
            state, master = self.optimizer.optim.state[fake], self.optimizer.param_to_chunk16[fake].paired_chunk.payload
            held = {"param": master[begin:begin + size], **{kind: state[kind] for kind in MOMENTS if kind in state}}
            tensors |= {f"{kind}/{name}": Shard(values, offset) for kind, values in held.items()}
            t = max(t, state.get("step", 0))
        return self.gathered(tensors), t


if __name__ == "__main__":
    Gemini.main()
