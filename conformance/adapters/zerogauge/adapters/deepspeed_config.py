# SPDX-License-Identifier: Apache-2.0
"""Translates a case to DeepSpeed's configuration; declines cases that it cannot express."""
import math

import torch

from zerogauge import Unsupported
from zerogauge.pytorch import hyper_parameters


def refuse(case):
    precision, scale = case.precision, case.loss_scale["kind"]
    if len({group["optimizer"] for group in case.groups}) > 1:
        raise Unsupported("one type of optimizer, Adam or AdamW, serves all groups")
    if any(p["shape"] == [] for p in case.params):
        raise Unsupported("deepspeed.initialize fails on parameters that are scalars")
    if precision != "fp16" and scale != "none":
        raise Unsupported(f"there is no loss scale in {precision}")
    if precision == "fp32" and case.overflow_check:
        raise Unsupported("there is no overflow check in fp32")
    if scale == "dynamic" and (case.loss_scale["initial_scale"] < 1 or
                               math.log2(case.loss_scale["initial_scale"]) % 1):
        raise Unsupported("the initial dynamic loss scale must be a power of two, 1 or larger")
    if case.stage == 0 and case.accumulation > 1 and case.accumulation_dtype != precision:
        raise Unsupported("stage 0 accumulates in the model's dtype")
    if case.resume and case.checkpoint["weights_only"] and precision != "fp32":
        raise Unsupported("load_module_only loads the 16-bit weights, not the fp32 ones")


BALLAST = 1 << 18  # elements per rank


def add_ballast(case, model, groups):
    """DeepSpeed keeps sub-groups smaller than 1 MiB per rank in memory. To send those of a small case to NVMe, each
    sub-group begins with a large extra parameter, which has no gradient and is not part of the answer."""
    for group in groups:
        members, size, group["params"] = group["params"], math.inf, []
        for parameter in members:
            if size >= case.buckets["sub_group"]:
                ballast = torch.nn.Parameter(torch.zeros(case.world * BALLAST, dtype=parameter.dtype))
                model.register_parameter(f"ballast{len(model._parameters)}", ballast)
                group["params"].append(ballast)
                size = 0
            group["params"].append(parameter)
            size += -(-parameter.numel() // case.world)
    case.buckets["sub_group"] += BALLAST


def config_of(case, scratch):
    """Sets every key that affects bits; gradient_clipping, for example, defaults to 1.0."""
    scale, sizes, hints = case.loss_scale, case.buckets, case.hints
    decoupled = case.groups[0]["optimizer"] == "AdamW"
    offload = {f"offload_{what}": {"device": device, "nvme_path": str(scratch)}
               for what, device in case.offload.items() if device != "none"}
    if "offload_param" in offload:
        offload["offload_param"]["buffer_size"] = 1 << 20  # elements; the default is 10^8, in each of five buffers
    adam = {**hyper_parameters(case, 0), "adam_w_mode": decoupled}
    # Offload selects DeepSpeedCPUAdam. Otherwise torch_adam avoids FusedAdam, which needs CUDA.
    adam |= {"bias_correction": case.groups[0]["bias_correction"]} if offload else {"torch_adam": True}
    config = {
        "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": case.accumulation,
        "gradient_clipping": case.gradient_clipping, "communication_data_type": case.communication_dtype,
        "optimizer": {"type": "AdamW" if decoupled else "Adam", "params": adam},
        "zero_optimization": {
            "stage": case.stage, "reduce_bucket_size": sizes["reduce"], "allgather_bucket_size": sizes["allgather"],
            "stage3_prefetch_bucket_size": sizes["prefetch"], "sub_group_size": sizes["sub_group"],
            "stage3_param_persistence_threshold": 0, "overlap_comm": hints["overlap"],
            "contiguous_gradients": hints["contiguous_gradients"], "reduce_scatter": hints["reduce_scatter"],
            **offload}}
    if case.stage > 0:
        config["data_types"] = {"grad_accum_dtype": case.accumulation_dtype}
    if case.precision == "bf16":
        config["bf16"] = {"enabled": True, "check_grad_overflow": case.overflow_check}
    if case.precision == "fp16":
        config["fp16"] = {"enabled": True, "loss_scale": scale.get("scale", 1)}
    if scale["kind"] == "dynamic":
        config["fp16"] = {"enabled": True, "initial_scale_power": int(math.log2(scale["initial_scale"])),
                          "loss_scale_window": scale["window"], "hysteresis": scale["hysteresis"],
                          "min_loss_scale": scale["min_scale"]}
    if case.mesh.is_given and case.stage == 3 and case.mesh.tensor == 1:  # hpZ
        config["zero_optimization"]["zero_hpz_partition_size"] = case.mesh.shard
    return config | getattr(case, "deepspeed_keys", {})
