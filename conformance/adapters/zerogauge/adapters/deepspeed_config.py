# SPDX-License-Identifier: Apache-2.0
"""Translates a case to DeepSpeed's configuration; declines cases that it cannot express."""
import math

import torch

from zerogauge import Unsupported
from zerogauge.pytorch import TorchAdapter, hyper_parameters


# Options of the adapter, the default first.
CHOICES = {
    "reduce_scatter": ["", "off"],  # "": as the case's hint says
    "contiguous_gradients": ["", "off"],  # likewise
    "gather": ["all-gather", "all-reduce"],  # of parameters, at stage 3
    "sub_group": ["", "40"],  # elements of a rank that are updated together, at stage 3; "": as the case says
    "overflow": ["case", "default"],  # whether bf16 gradients are searched for infinity
    "communication": ["case", "default"],  # dtype of sums; the default is the model's
    "persistence": ["0", "40", "100000"],  # parameters with fewer elements are not sharded at stage 3
    "cpu_adam": ["deepspeed", "torch"],  # the optimizer of offloaded states
    "states": ["fp32", "bf16"],  # moments and master parameters of a bf16 model
    "micro": ["steps", "backwards"],  # micro-steps: as accumulation, or as several backward calls of one step
    "checkpoint": ["plain", "elastic", "universal"],  # the last two may be resumed at another world
    "sequence": ["mpu", "mesh"],  # how it is told which ranks share a micro-batch
}


def refuse(case):
    precision, scale = case.precision, case.loss_scale["kind"]
    for setting in "optimizer", "bias_correction":
        case.common(setting)
    if any(p["shape"] == [] for p in case.params):
        raise Unsupported("deepspeed.initialize fails on parameters that are scalars")
    sizes = [{math.prod(p["shape"]) for p in case.params if p["name"] in case.trained and p["group"] == index}
             for index in range(len(case.groups))]
    if case.stage in (1, 2) and {0} in sizes:
        raise Unsupported("stages 1 and 2 fail on a group of empty parameters alone")
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
                ballast = torch.nn.Parameter(parameter.new_zeros(case.world * BALLAST))
                model.register_parameter(f"ballast{len(model._parameters)}", ballast)
                group["params"].append(ballast)
                size = 0
            group["params"].append(parameter)
            size += -(-parameter.numel() // case.world)
    case.buckets["sub_group"] += BALLAST


def config_of(case, arguments):
    """Sets every key that affects bits; gradient_clipping, for example, defaults to 1.0."""
    scale, sizes, hints = case.loss_scale, case.buckets, case.hints
    decoupled = case.groups[0]["optimizer"] == "AdamW"
    offload = {f"offload_{what}": {"device": device, "nvme_path": str(arguments.scratch)}
               for what, device in case.offload.items() if device != "none"}
    if "offload_param" in offload:
        offload["offload_param"]["buffer_size"] = 1 << 20  # elements; the default is 10^8, in each of five buffers
    adam = {**hyper_parameters(case, 0), "adam_w_mode": decoupled}
    # Offload selects DeepSpeedCPUAdam. Otherwise it takes FusedAdam on CUDA, and torch_adam on the CPU, which has none.
    own = offload and arguments.cpu_adam == "deepspeed"
    adam |= {"torch_adam": True} if not own and TorchAdapter.device.type == "cpu" else {
        "bias_correction": case.groups[0]["bias_correction"]}
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": case.accumulation if arguments.micro == "steps" else 1,
        "gradient_clipping": case.gradient_clipping,
        "zero_force_ds_cpu_optimizer": arguments.cpu_adam == "deepspeed",
        "optimizer": {"type": "AdamW" if decoupled else "Adam", "params": adam},
        "zero_optimization": {
            "stage": case.stage, "reduce_bucket_size": sizes["reduce"], "allgather_bucket_size": sizes["allgather"],
            "stage3_prefetch_bucket_size": sizes["prefetch"],
            "sub_group_size": int(arguments.sub_group or sizes["sub_group"]),
            "stage3_param_persistence_threshold": int(arguments.persistence), "overlap_comm": hints["overlap"],
            "contiguous_gradients": hints["contiguous_gradients"] and not arguments.contiguous_gradients,
            "reduce_scatter": hints["reduce_scatter"] and not arguments.reduce_scatter,
            "elastic_checkpoint": arguments.checkpoint == "elastic",
            **offload}}
    if arguments.communication != "default":
        config["communication_data_type"] = case.communication_dtype
    if arguments.gather == "all-reduce":
        config["zero_optimization"]["stage3_use_all_reduce_for_fetch_params"] = True
    if arguments.checkpoint == "universal" and case.resume:
        config["checkpoint"] = {"load_universal": True}
    if case.stage > 0:
        config["data_types"] = {"grad_accum_dtype": case.accumulation_dtype}
    if case.precision == "bf16":
        config["bf16"] = {"enabled": True}
        if arguments.overflow != "default":
            config["bf16"]["check_grad_overflow"] = case.overflow_check
        if arguments.states == "bf16":
            config["bf16"] |= {"bf16_master_weights_and_grads": True, "bf16_optimizer_states": True}
    if case.precision == "fp16":
        config["fp16"] = {"enabled": True, "loss_scale": scale.get("scale", 1)}
    if scale["kind"] == "dynamic":
        config["fp16"] = {"enabled": True, "initial_scale_power": int(math.log2(scale["initial_scale"])),
                          "loss_scale_window": scale["window"], "hysteresis": scale["hysteresis"],
                          "min_loss_scale": scale["min_scale"]}
    if case.mesh.is_given and case.stage == 3 and case.mesh.tensor == 1:  # hpZ
        config["zero_optimization"]["zero_hpz_partition_size"] = case.mesh.shard
    return config | getattr(case, "deepspeed_keys", {})
