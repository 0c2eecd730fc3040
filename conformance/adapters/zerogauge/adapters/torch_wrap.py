# SPDX-License-Identifier: Apache-2.0
"""Wraps a case's model in PyTorch's data parallelism, in the dtypes of the case."""
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook, fp16_compress_hook
from torch.distributed.fsdp import (FullyShardedDataParallel, MixedPrecision, MixedPrecisionPolicy,
                                    ShardingStrategy, fully_shard)
from torch.nn.parallel import DistributedDataParallel

from zerogauge.pytorch import DTYPES, TorchAdapter, Unsupported


def refuse(case, mode, parameters="fp32"):
    if case.loss_scale.get("min_scale", 1) > 1:
        raise Unsupported("GradScaler has no minimum scale")
    if case.loss_scale["kind"] != "none" and not case.overflow_check:
        raise Unsupported("GradScaler has no scale without a search for infinities")
    held = case.precision if parameters == "model" else "fp32"
    if case.accumulation > 1 and case.accumulation_dtype != held:
        raise Unsupported(f"micro-steps are accumulated in {held}")
    if mode in ("fsdp1", "fsdp2") and any(p["shape"] == [] for p in case.params):
        raise Unsupported("FSDP refuses scalar parameters")
    if mode == "fsdp2" and any(0 in p["shape"] for p in case.params):
        raise Unsupported("fully_shard fails on empty parameters: _chunk_cat expects non-empty tensor")


def refuse_load(case, weights_only):
    """What checkpoints by torch.distributed.checkpoint, as Accelerate and Fabric write them, cannot give back."""
    if weights_only:
        raise Unsupported("weights are loaded together with the optimizer's states")
    if not all(p["used"] or p["frozen"] for p in case.params):
        raise Unsupported("a checkpoint without the optimizer state of an unused parameter cannot be loaded")


def data_mesh(case, mesh):
    """What fully_shard shards over: replicas of shard groups are HSDP."""
    return mesh["shard"] if case.mesh.tensor > 1 and case.mesh.replicate == 1 else mesh["replicate", "shard"]


def wrap(case, mode, model):
    send = case.communication_dtype
    low = {"param_dtype": DTYPES[case.precision], "reduce_dtype": DTYPES[send], "cast_forward_inputs": False}
    if mode == "fsdp1":
        strategy = ShardingStrategy.FULL_SHARD if case.stage == 3 else ShardingStrategy.SHARD_GRAD_OP
        options = {"use_orig_params": True, "mixed_precision": MixedPrecision(**low), "device_id": TorchAdapter.device,
                   "sharding_strategy": strategy}
        for i, unit in enumerate(model.units):
            if not any(p.requires_grad for p in unit.parameters()):
                raise Unsupported("FSDP1 fails on a unit of frozen parameters that returns its input")
            model.units[i] = FullyShardedDataParallel(unit, **options)
        return FullyShardedDataParallel(model, **options)
    if mode == "fsdp2":
        for module in [*model.units, model]:
            fully_shard(module, mp_policy=MixedPrecisionPolicy(**low), reshard_after_forward=case.stage == 3,
                        **({"mesh": data_mesh(case, model.mesh)} if case.mesh.is_given else {}))
    if mode in ("ddp", "zero1"):
        model = DistributedDataParallel(model, bucket_cap_mb=case.buckets["reduce"] * 4 / 2**20,
                                        find_unused_parameters=not case.uses_all)
        if send != "fp32":
            model.register_comm_hook(None, bf16_compress_hook if send == "bf16" else fp16_compress_hook)
    return model
