# SPDX-License-Identifier: Apache-2.0
"""How one run of a family is made: what changes when and where something is computed, but not one of its bits."""
import dataclasses
import functools
import json
import pathlib

from space import HPZ, LARGEST_WORLD, OWN, ZERO, chance, divisors

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OPTIMIZER, PARAM = ZERO + "offload_optimizer.", ZERO + "offload_param."
CHECKPOINTING = OWN + "activation_checkpointing."
TIERS = ("none", "cpu", "nvme")
PRESETS = ("zero0", "zero1", "zero2", "zero2_offload", "zero3", "zero3_offload", "zero_infinity")
HUGE = 1000000000


@functools.cache
def preset_keys(name):
    """The keys of a built-in configuration, flat."""
    def flat(value, path):
        if not isinstance(value, dict):
            return {path: value}
        return {k: v for key, inner in value.items() for k, v in flat(inner, f"{path}.{key}" if path else key).items()}
    return flat(json.loads((ROOT / f"datasets/configs/{name}.json").read_text(encoding="utf-8")), "")


@dataclasses.dataclass
class Placement:
    """keys: of the run. The rest is what they amount to."""
    keys: dict
    stage: int = 0
    optimizer: str = "none"
    gradient: str = "none"
    param: str = "none"
    activations: str = "none"
    ratio: float = 1
    speculative: bool = False
    tensor: int = 1
    pipeline: int = 1

    def on_nvme(self):
        return "nvme" in (self.optimizer, self.gradient, self.param, self.activations)

    def is_coarse(self, family):
        """True where buckets of few elements would make a run long: many ranks, locked pages, messages."""
        many = family.ranks() * self.tensor * self.pipeline > 3
        return family.model.heavy or many or any(key in self.keys for key in ("mpirun", "--emulate", "--schedule"))


def draw_tiers(rng, family, p):
    """The preset's tiers, or others that the stage allows; keys only where they differ from the preset's."""
    p.stage = rng.choice(family.stages + (3, 3) * (3 in family.stages))
    near = [name for name in PRESETS if preset_keys(name)[ZERO + "stage"] == p.stage]
    name = rng.choice(near if chance(rng, 0.6) else [n for n in PRESETS if n != "zero0"])
    has = preset_keys(name)
    p.keys["--preset"] = name
    most = {0: 1, 1: 2, 2: 2, 3: 3}[p.stage]
    keeps = has[ZERO + "stage"] == p.stage and chance(rng, 0.5)
    was = {key: has.get(key + "device", "none") for key in (OPTIMIZER, PARAM)}
    p.optimizer = was[OPTIMIZER] if keeps else rng.choice(TIERS[:most])
    p.param = was[PARAM] if keeps else rng.choice(TIERS) if p.stage == 3 else "none"
    if family.delayed and p.optimizer == "none":
        p.optimizer = rng.choice(TIERS[1:most])
    p.gradient = p.optimizer
    if p.optimizer != "none" and chance(rng, 0.3 if keeps else 0.6):
        p.gradient = rng.choice(TIERS[:most])
    for key, old, new in ((ZERO + "stage", has[ZERO + "stage"], p.stage),
                          (OPTIMIZER + "device", was[OPTIMIZER], p.optimizer),
                          (PARAM + "device", was[PARAM], p.param),
                          (OWN + "offload_gradient.device", p.optimizer, p.gradient)):
        if old != new:
            p.keys[key] = new


def draw_activations(rng, p):
    has = preset_keys(p.keys["--preset"])
    enabled, tier = has.get(CHECKPOINTING + "enabled", False), has.get(CHECKPOINTING + "device", "none")
    p.activations = tier
    if not chance(rng, 0.4):
        return
    enabled = chance(rng, 0.6)
    p.activations = rng.choice(TIERS) if enabled else "none"
    p.keys[CHECKPOINTING + "enabled"] = enabled
    if p.activations != tier:
        p.keys[CHECKPOINTING + "device"] = p.activations


def draw_mesh(rng, family, p):
    """Parts of the model in addition to the family's ranks of data parallelism."""
    room = LARGEST_WORLD // family.ranks()
    may_cut = family.model.blocks > 1 and not family.quantized
    if may_cut and OWN + "recipe" not in family.keys and chance(rng, 0.6):
        p.tensor = rng.choice([t for t in divisors(family.model.blocks) if t <= room])
    room //= p.tensor
    if family.model.is_gpt() and p.stage <= 1 and chance(rng, 0.6):
        p.pipeline = rng.choice([n for n in divisors(family.model.layers) if n <= room])
        if p.pipeline > 1 and chance(rng, 0.4):
            p.keys[OWN + "pipeline_schedule"] = "gpipe"
    degrees = {"replicate": family.replicate, "shard": family.shard, "tensor": p.tensor, "pipeline": p.pipeline,
               "expert": family.expert}
    if p.stage == 0:
        degrees.update(replicate=family.ranks(), shard=1)
    cut = p.tensor * p.pipeline * family.expert > 1 or (family.replicate > 1 and p.stage > 0)
    if not cut:
        p.keys["--world"] = family.ranks()
    else:
        p.keys["--mesh"] = ",".join(f"{name}={degree}" for name, degree in degrees.items() if degree > 1)


def least_buffers(family, p):
    """Staging buffers on the host that the update of one sub-group needs."""
    copies = (family.has_master() or p.param != p.optimizer or family.delayed or
              (p.speculative and family.decides()))
    if p.optimizer == "none":
        return int(copies and p.param == "nvme")
    return 3 * (p.optimizer == "nvme") + (p.gradient != "cpu") + (copies and p.param != "cpu")


def draw_update(rng, family, p):
    keys = p.keys
    if p.optimizer == "cpu" and p.stage == 3 and not family.delayed and chance(rng, 0.3):
        p.ratio = keys[OPTIMIZER + "ratio"] = rng.choice((0, 0.3, 0.7))
    if p.gradient != "none" and not family.delayed and chance(rng, 0.4):
        p.speculative = keys[OWN + "speculative_update"] = True
    least = least_buffers(family, p)
    if p.optimizer != "none" and chance(rng, 0.5):
        keys[OPTIMIZER + "buffer_count"] = max(1, least + (rng.randrange(1, 10) if chance(rng, 0.3) else 0))
    if p.optimizer == "nvme":
        for name in "pipeline_read", "pipeline_write":
            if chance(rng, 0.5):
                keys[OPTIMIZER + name] = chance(rng, 0.7)
    for section, tier in ((OPTIMIZER, p.optimizer), (PARAM, p.param)):
        if tier != "none" and chance(rng, 0.2):
            keys[section + "pin_memory"] = chance(rng, 0.5)
    if p.stage > 0 and chance(rng, 0.5):
        keys[ZERO + "sub_group_size"] = rng.choice((2048, 5000, HUGE) if p.is_coarse(family)
                                                   else (1, 200, 2048, 2049, 5000, HUGE))


def draw_buckets(rng, family, p):
    keys, coarse = p.keys, p.is_coarse(family)
    if chance(rng, 0.6):
        keys[ZERO + "reduce_bucket_size"] = rng.choice((998, 5000, HUGE) if coarse else (1, 3, 64, 998, 5000, HUGE))
    if chance(rng, 0.3):
        keys[ZERO + "allgather_bucket_size"] = rng.choice((998, 5000, HUGE) if coarse else (2, 64, 998, 5000, HUGE))
    for name in "overlap_comm", "contiguous_gradients":
        if chance(rng, 0.3):
            keys[ZERO + name] = chance(rng, 0.5)


def draw_fetching(rng, family, p):
    """Stage 3's own keys."""
    if p.stage != 3:
        return
    keys, quantized = p.keys, family.quantized
    for name, values, probability in (("prefetch_bucket_size", (0, 1, 3000, 10000, HUGE), 0.5),
                                      ("max_live_parameters", (1, 3000, 12000, HUGE), 0.4),
                                      ("max_reuse_distance", (0, 1, 3000, HUGE), 0.4),
                                      ("param_persistence_threshold", (0, 64, 1000), 0 if quantized else 0.3),
                                      ("model_persistence_threshold", (100, 4000), 0 if quantized else 0.1)):
        if chance(rng, probability):
            keys[ZERO + "stage3_" + name] = rng.choice(values)
    if not quantized and chance(rng, 0.25):
        if chance(rng, 0.5):
            keys[OWN + "partitioning"] = "owner_broadcast"
        elif family.shard > 1 and family.expert == 1 and not family.uses_muon():
            keys[HPZ] = rng.choice(divisors(family.shard)[1:])
    if p.param == "nvme":
        for name, values in (("buffer_count", (1, 2, 3, 8)), ("max_in_cpu", (0, 2048, 6144, HUGE))):
            if chance(rng, 0.5):
                keys[PARAM + name] = rng.choice(values)


def draw_storage(rng, p):
    keys = p.keys
    if "nvme" not in (p.optimizer, p.param) and chance(rng, 0.6):
        keys[OWN + "async_save"] = True
    if not p.on_nvme():
        return
    for name, values, probability in (("aio.block_size", (4096, 8192, 65536, 1048576), 0.4),
                                      ("aio.queue_depth", (1, 2, 8, 32), 0.4),
                                      ("aio.intra_op_parallelism", (1, 2, 3), 0.3),
                                      ("aio.single_submit", (False, True), 0.2),
                                      ("aio.overlap_events", (False, True), 0.2),
                                      ("--engine", ("libaio", "io_uring"), 0.5),
                                      ("--buffered", (True,), 0.1), ("--no-swap-checksum", (True,), 0.1),
                                      ("--nvme-path", (2,), 0.15)):
        if chance(rng, probability):
            keys[name] = rng.choice(values)
    if chance(rng, 0.1):
        keys["--inject"] = f"nvme:{rng.choice(('delay', 'short'))}@{rng.randrange(1, 60)}"


def draw_execution(rng, family, p):
    keys, world = p.keys, family.ranks() * p.tensor * p.pipeline
    keys["--threads"] = rng.choice((1, 1, 2, 3))
    if chance(rng, 0.25) and not family.model.heavy:
        keys["--schedule"] = "serial" if chance(rng, 0.3) else f"chaos:{rng.randrange(1, 1000)}"
    elif chance(rng, 0.15):
        lanes = ["collective", "h2d", "d2h"] + ["nvme-read", "nvme-write"] * p.on_nvme()
        keys["--emulate"] = f"{rng.choice(lanes)}={rng.choice((0.02, 0.1, 0.5))}"
    if 2 <= world <= 4 and chance(rng, 0.12):
        keys["mpirun"] = True
    if chance(rng, 0.05):
        keys["--verify"] = True


def draw_placement(rng, family):
    p = Placement({})
    draw_tiers(rng, family, p)
    draw_activations(rng, p)
    draw_mesh(rng, family, p)
    draw_execution(rng, family, p)
    draw_update(rng, family, p)
    draw_buckets(rng, family, p)
    draw_fetching(rng, family, p)
    draw_storage(rng, p)
    return p


def reference_keys(family):
    """The family's run of the definition: nothing is cut, offloaded, or done at the same time."""
    stage = family.stages[0]
    p = Placement({"--preset": {1: "zero2_offload", 2: "zero2_offload", 3: "zero3_offload"}[stage] if family.delayed
                   else f"zero{stage}"}, stage=stage)
    if family.delayed and stage == 1:
        p.keys[ZERO + "stage"] = 1
    if stage == 0 and family.expert > 1:
        p.keys["--mesh"] = f"replicate={family.ranks()},expert={family.expert}"
    elif family.replicate > 1 or family.expert > 1:
        p.keys["--mesh"] = f"replicate={family.replicate},shard={family.shard},expert={family.expert}"
    else:
        p.keys["--world"] = family.ranks()
    return {**family.keys, **p.keys, "--schedule": "serial", "--verify": True}
