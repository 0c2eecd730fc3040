# SPDX-License-Identifier: Apache-2.0
"""Megatron-core's distributed optimizer, with its DistributedDataParallel: stage 2, also of several instances, and with
tensor, sequence and expert parallelism. It is written for CUDA alone."""
import numpy as np
import torch
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.tensor_parallel import set_tensor_model_parallel_attributes
from megatron.core.transformer import TransformerConfig
from torch.overrides import TorchFunctionMode

from zerogauge import MOMENTS, Shard, Unsupported
from zerogauge.pytorch import DTYPES, Model, TorchAdapter, device_type, hyper_parameters

if device_type() == "cpu":
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.cuda.Stream = lambda device: None  # several instances make one, and use it where reduction overlaps


class OnCPU(TorchFunctionMode):
    """Makes tensors for CUDA on the CPU, and names CUDA's type for the CPU's; Megatron asks for both."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if kwargs.get("device") == "cuda":
            kwargs["device"] = "cpu"
        if function is torch.Tensor.type and len(args) == 1:
            return function(*args).replace("torch.", "torch.cuda.", 1)
        return function(*args, **kwargs)


class Megatron(TorchAdapter):
    @classmethod
    def join(cls, rank, arguments, folder):
        super().join(rank, arguments, folder)
        cls.degrees = None
        if device_type() == "cpu":
            OnCPU().__enter__()

    @classmethod
    def place(cls, mesh):
        """Makes the process groups of a mesh, unless they are there."""
        degrees = {"tensor_model_parallel_size": mesh.tensor, "expert_model_parallel_size": mesh.expert,
                   "num_distributed_optimizer_instances": mesh.replicate}
        if degrees != cls.degrees:
            parallel_state.destroy_model_parallel()
            parallel_state.initialize_model_parallel(**degrees)
            cls.degrees = degrees

    def mark(self):
        """Tells Megatron what its own layers would."""
        for name, p in self.model.by_name.items():
            mesh = self.case.mesh
            cut = mesh.cut(name)
            set_tensor_model_parallel_attributes(p, cut is not None, -1 if cut is None else cut, 1)
            p.allreduce, p.sequence_parallel = mesh.expert_of(name) is None, mesh.partial(name)

    def config(self):
        mesh = self.case.mesh
        return TransformerConfig(
            num_layers=1, hidden_size=mesh.tensor, num_attention_heads=mesh.tensor,
            tensor_model_parallel_size=mesh.tensor, sequence_parallel=mesh.tensor > 1,
            expert_model_parallel_size=mesh.expert, num_moe_experts=mesh.experts if mesh.expert > 1 else None)

    def build(self, case):
        if case.accumulation_dtype != case.communication_dtype:
            raise Unsupported("gradients are sent in the dtype in which they are accumulated")
        self.place(case.mesh)
        self.model, adam = Model(case, DTYPES[case.precision]), hyper_parameters(case, 0)
        self.mark()
        self.wrapped = DistributedDataParallel(self.config(), DistributedDataParallelConfig(
            grad_reduce_in_fp32=case.accumulation_dtype == "fp32", use_distributed_optimizer=True,
            num_distributed_optimizer_instances=case.mesh.replicate,
            overlap_grad_reduce=case.hints["overlap"] and case.mesh.replicate == 1,
            bucket_size=case.buckets["reduce"]), self.model)
        self.optimizer = get_megatron_optimizer(OptimizerConfig(
            lr=adam["lr"], weight_decay=adam["weight_decay"], adam_beta1=adam["betas"][0], adam_beta2=adam["betas"][1],
            adam_eps=adam["eps"], bf16=case.precision == "bf16", use_distributed_optimizer=True,
            clip_grad=case.gradient_clipping, decoupled_weight_decay=case.common("optimizer") == "AdamW"),
            [self.wrapped], config_overrides={})  # by default, parameters of one dimension do not decay
        self.wrapped.zero_grad_buffer()

    def set_lr(self, step):
        for group in self.optimizer.param_groups:  # Megatron's own, of which experts are one
            group["lr"] = self.case.lr(0, step)

    def micro_step(self, gradients):
        with self.wrapped.no_sync():
            super().micro_step(gradients)

    def step(self):
        finalize_model_grads([self.wrapped])
        _, norm, _ = self.optimizer.step()
        self.wrapped.zero_grad_buffer()
        self.optimizer.zero_grad()
        return False, None, np.float64(norm) if self.case.gradient_clipping else None

    def state(self):
        tensors, t = {f"param/{name}": Shard(p, 0) for name, p in self.model.by_name.items() if not p.requires_grad}, 0
        parts = [(held, p) for held in self.optimizer.chained_optimizers for p in held.model_param_group_index_map]
        for held, p in parts:
            mine = held._get_main_param_and_optimizer_states(p)
            begin = held._get_model_param_range_map(p)["param"].start
            t = max(t, int(mine.get("step", 0)))
            tensors |= {f"{kind}/{self.model.name_of[p]}": Shard(mine[kind], begin) for kind in ("param", *MOMENTS)
                        if kind in mine}
        return self.gathered(tensors), max(self.gather(np.array(t)))


if __name__ == "__main__":
    Megatron.main()
