# SPDX-License-Identifier: Apache-2.0
"""What a family of runs has in common: everything that decides its bits.

A run is one flat dictionary. Names with dashes are options of `zerogauge train`, other names with dots are keys of the
configuration, and "mpirun" makes its ranks processes. A family's part of it comes from here, the rest from
placement.py.
"""
import dataclasses

ZERO, OWN = "zero_optimization.", "zerogauge."
HPZ = ZERO + "zero_hpz_partition_size"
ADAPTERS = ("rank=2", "rank=3,alpha=8,targets=all-linear", "rank=2,targets=c_attn+c_proj")
LINEAR_ADAPTERS = ("rank=2", "rank=3,alpha=8")
RECIPES = ("torch-cpu-nofma", "deepspeed-cpu-scalar", "torch-fused-cpu", "apex")
LARGEST_WORLD = 8


@dataclasses.dataclass(frozen=True)
class Model:
    """blocks: into which tensor parallelism may cut; layers: into which pipelines may; heavy: steps take long."""
    name: str
    weight: int
    blocks: int = 1
    layers: int = 1
    experts: int = 0
    heavy: bool = False

    def is_gpt(self):
        return self.name.startswith("gpt")

    def is_linear(self):
        return self.name.startswith("linear")


MODELS = (
    Model("linear", 5), Model("linear-overflow", 5), Model("linear-few", 1), Model("linear-exact", 2),
    Model("gpt-nano", 7, layers=2), Model("gpt-nano:blocks=2", 4, blocks=2, layers=2),
    Model("gpt-nano:layers=4,heads=4,blocks=4", 3, blocks=4, layers=4),
    Model("gpt-nano:experts=4,top=2", 3, layers=2, experts=4),
    Model("gpt-nano:experts=2,blocks=2,capacity=1.25", 2, blocks=2, layers=2, experts=2),
    Model("gpt-tiny", 1, layers=4, heavy=True), Model("llama-tiny", 1, layers=4, heavy=True),
    Model("llama:layers=2,width=16,heads=4,kv_heads=2,hidden=32,vocabulary=256,length=16", 3, layers=2),
)


@dataclasses.dataclass
class Family:
    """keys: of every run. stages: that have the same bits. replicate, shard, expert: degrees of its ranks of data
    parallelism. clip: the share of the pilot's steps that are clipped; None: the key says it."""
    model: Model
    keys: dict
    stages: tuple = (1, 2, 3)
    replicate: int = 1
    shard: int = 1
    expert: int = 1
    precision: str = "bf16"
    delayed: bool = False
    quantized: bool = False
    overflow_checked: bool = True
    clip: float | None = None

    def ranks(self):
        return self.replicate * self.shard

    def decides(self):
        """True if a decision is between the gradients and the update."""
        return self.overflow_checked or self.clip is not None or self.keys.get("gradient_clipping", 1) != 0

    def uses_muon(self):
        return self.keys.get("optimizer.type") == "Muon"

    def has_master(self):
        """True if master parameters are of another format than the model's."""
        return self.keys.get(OWN + "master_dtype", "fp32") != self.precision


def chance(rng, probability):
    return rng.random() < probability


def divisors(count):
    return [d for d in range(1, count + 1) if count % d == 0]


def draw_precision(rng, family):
    """Of the three formats only one has 16 bits."""
    keys, overflows = family.keys, family.model.name == "linear-overflow"
    precision = rng.choice(("fp16", "fp16", "bf16") if overflows else ("fp32", "fp16", "fp16", "bf16", "bf16"))
    family.precision = precision
    small = precision if precision != "fp32" else rng.choice(("bf16", "fp16"))
    if chance(rng, 0.35):
        keys["communication_data_type"] = rng.choice((small, "fp32"))
    if chance(rng, 0.35):
        keys["data_types.grad_accum_dtype"] = rng.choice((precision, "fp32"))
    if precision != "bf16":
        keys["bf16.enabled"] = False
        family.overflow_checked = False
    elif not overflows and chance(rng, 0.4):
        keys["bf16.check_grad_overflow"] = family.overflow_checked = False
    if precision == "fp16":
        keys["fp16.enabled"] = family.overflow_checked = True
        draw_loss_scale(rng, keys)


def draw_loss_scale(rng, keys):
    """Mostly scales near the largest that fits, which grow after every step or every second: many steps are skipped."""
    if chance(rng, 0.1):
        keys["fp16.loss_scale"] = rng.choice((1, 128, 1024))
        return
    keys["fp16.initial_scale_power"] = rng.choice((12, 14, 16, 16, 17, 18, 19, 20))
    keys["fp16.loss_scale_window"] = rng.choice((1, 1, 1, 2, 3))
    if chance(rng, 0.7):
        keys["fp16.hysteresis"] = rng.choice((1, 1, 2))
    if chance(rng, 0.2):
        keys["fp16.consecutive_hysteresis"] = True


def draw_optimizer(rng, family):
    keys = family.keys
    if chance(rng, 0.2):
        keys["gradient_clipping"] = rng.choice((0, 0, 1e-4, 1000))
    else:
        family.clip = rng.choice((0.25, 0.5, 0.5, 0.75))
    for name, values, probability in (("optimizer.params.weight_decay", (0, 0.01), 0.15),
                                      ("optimizer.params.lr", (0.01, 0.0001), 0.15),
                                      ("optimizer.params.adam_w_mode", (False,), 0.1),
                                      (OWN + "clip_form", ("torch",), 0.2), (OWN + "recipe", RECIPES, 0.15)):
        if chance(rng, probability):
            keys[name] = rng.choice(values)
    if "optimizer.params.adam_w_mode" in keys:
        keys["optimizer.type"] = "Adam"
    if chance(rng, 0.1):
        keys["scheduler.type"] = "WarmupLR"
        keys["scheduler.params.warmup_num_steps"] = rng.choice((2, 5))
    draw_states(rng, family)


def draw_states(rng, family):
    """Muon, which keeps its states in fp32; or states of Adam in other formats."""
    keys = family.keys
    if not family.model.is_linear() and "optimizer.params.adam_w_mode" not in keys and chance(rng, 0.2):
        keys["optimizer.type"] = "Muon"
        for name, values in (("momentum", (0, 0.5)), ("nesterov", (False,)), ("ns_steps", (1, 6)),
                             ("adjust_lr_fn", ("match_rms_adamw",)), ("muon_lr", (0.02,))):
            if chance(rng, 0.2) and not (name == "muon_lr" and "scheduler.type" in keys):
                keys["optimizer.params." + name] = rng.choice(values)
    elif chance(rng, 0.25):
        keys[OWN + "moment_dtype"] = rng.choice(("fp32", "bf16", "fp16"))
        keys[OWN + "master_dtype"] = rng.choice(("fp32", family.precision))


def draw_ranks(rng, family):
    ranks = rng.choice((1, 2, 2, 2, 3, 4, 4, 6, 8) if not family.model.heavy else (1, 2, 2, 3))
    family.replicate = rng.choice(divisors(ranks)) if chance(rng, 0.3) else 1
    family.shard = ranks // family.replicate
    if family.model.experts and chance(rng, 0.7):
        family.expert = max(d for d in divisors(family.model.experts) if family.shard % d == 0)


def draw_model_keys(rng, family):
    keys, model = family.keys, family.model
    if chance(rng, 0.15) and (model.is_gpt() or model.is_linear()) and model.name != "linear-few":
        keys["--lora"] = "rank=2" if model.experts else rng.choice(LINEAR_ADAPTERS if model.is_linear() else ADAPTERS)
    elif chance(rng, 0.1) and model.is_gpt() and model.blocks == 1 and not model.experts:
        keys[OWN + "tiling.factor"] = 2
    if model.blocks > 1 and chance(rng, 0.3):
        keys["--sequence-parallel"] = True
    if family.precision == "bf16" and model.blocks == 1 and not model.is_linear() and chance(rng, 0.15):
        keys["--products"] = "bf16"  # refused where the processor has no such instructions


def draw_sums(rng, family):
    """The order of sums, and quantization in them."""
    keys = family.keys
    plain = family.replicate == 1 and family.expert == 1 and 0 not in family.stages
    if plain and family.shard > 1 and chance(rng, 0.15):
        keys[OWN + "reduction_group"] = rng.choice(divisors(family.shard))
    if 3 not in family.stages or family.expert > 1 or family.uses_muon() or not chance(rng, 0.15):
        return
    family.stages, family.quantized = (3,), True
    # Persistent parameters are not quantized.
    keys[ZERO + "stage3_param_persistence_threshold"] = rng.choice((0, 0, 64, 1000))
    weights = chance(rng, 0.6) or family.replicate > 1
    if weights:
        keys[ZERO + "zero_quantized_weights"] = True
    if not weights or (family.replicate == 1 and chance(rng, 0.5)):
        keys[ZERO + "zero_quantized_gradients"] = True
    if chance(rng, 0.7):
        keys[OWN + "quantization_block"] = rng.choice((8, 64, 512))
    if family.shard > 1 and chance(rng, 0.4):
        keys[HPZ] = rng.choice(divisors(family.shard))


def draw_stages(rng, family):
    """Stages 0 and 1 sum over micro-steps first, stages 2 and 3 over ranks; where a shard group is one rank with
    replicas, all of 1 to 3 sum over micro-steps first. Stage 0 has no shard groups."""
    one_order = family.keys["gradient_accumulation_steps"] == 1 or (family.replicate > 1 and family.shard == 1)
    if chance(rng, 0.06) and family.keys.get("data_types.grad_accum_dtype", family.precision) in (
            family.precision, "fp32"):
        family.stages, family.shard, family.replicate = (0,), family.ranks(), 1
    else:
        family.stages = (1, 2, 3) if one_order else rng.choice(((1,), (2, 3), (2, 3)))


def draw_delay(rng, family):
    if 0 not in family.stages and chance(rng, 0.12):
        family.delayed = True
        family.keys[OWN + "delayed_update.start_step"] = rng.choice((1, 2, 3))


def draw_family(rng):
    model = rng.choices(MODELS, [m.weight for m in MODELS])[0]
    family = Family(model, {"--model": model.name, "--seed": rng.randrange(1, 1000),
                            "--steps": rng.choice((4, 5) if model.heavy else (4, 6, 8, 10, 12))})
    family.keys["train_micro_batch_size_per_gpu"] = rng.choice((1, 2) if model.heavy else (1, 2, 4))
    family.keys["gradient_accumulation_steps"] = rng.choice((1, 1, 1, 2, 3))
    for draw in (draw_precision, draw_optimizer, draw_ranks, draw_model_keys, draw_stages, draw_sums, draw_delay):
        draw(rng, family)
    return family
