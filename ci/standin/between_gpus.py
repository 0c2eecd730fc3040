# SPDX-License-Identifier: Apache-2.0
"""Checks of benchmarks between GPUs: NCCL by itself, and a pair's share of its links."""
import os
import re

from checks import Says
from waits import BUILD, FOLDER

# NCCL by itself: each operation with each type and, where it has one, each reduction. An average of floating-point
# numbers is exact where the ranks are a power of two.
TYPES = "int8 uint8 int32 uint32 int64 uint64 fp16 fp32 fp64 bf16 fp8e4m3 fp8e5m2".split()
REDUCTIONS = "sum prod max min avg".split()
OPERATIONS = {**dict.fromkeys(("reduce-scatter", "all-reduce", "reduce"), REDUCTIONS),
              **dict.fromkeys("all-gather all-to-all broadcast gather scatter send-receive".split(), "-")}
NCCL_CHECKS, NCCL = [], "bench comm --device cuda --nccl --quick --sizes 500 --repeat 1 --warmup 0 --dtype "
for ranks in (2, 3):
    rows = [f"SKIP: comm: NCCL's {operation} of {of}, avg" if by == "avg" and "int" not in of and ranks == 3 else
            f"  {operation:<14} {of:<8} {by:<9} {how:<6} "
            for operation, all_by in OPERATIONS.items() for of in TYPES for by in all_by for how in ("called", "graph")]
    NCCL_CHECKS.append(Says(0, rows, NCCL + "all --reduction all", {}, processes=ranks))
NCCL_CHECKS += [
    Says(1, "NCCL's all-reduce of 124 elements of int32, min: rank 1 has 1 wrong, first element 62, 0x",
         NCCL + "int32 --reduction min --operation all-reduce", {"ZG_STANDIN_NCCL": "lose:2:1"}, processes=2),
    Says(77, "SKIP: comm: NCCL's reduce of fp8e4m3, sum: only devices of 9.0 and later reduce it",
         NCCL + "fp8e4m3 --operation reduce", {"ZG_STANDIN_CAPABILITY": "80"}, processes=2),
]
# Two GPUs for NVML: without NVLink; with three, of which one is off; with those of a switch.
GPUS = {"none": "0.model A\n0.generation_most 4\n0.lanes_most 16\n1.model B\n1.generation_most 3\n1.lanes_most 16\n"}
GPUS["direct"] = GPUS["none"] + "".join(f"{gpu}.link{link} gpu {1 - gpu}{' off' * (link == 1)}\n"
                                        f"{gpu}.links_mb_per_s 26562\n" for gpu in range(2) for link in range(3))
GPUS["switch"] = GPUS["none"] + "".join(f"{gpu}.link{link} switch\n{gpu}.link{link}_mb_per_s 26562\n"
                                        for gpu in range(2) for link in range(18))
PAIRS = [f" {devices:<9} {copy:<5} {memory:<11} {block:>9} " for devices, copy, memory, block in (
    ("0 and 1", "write", "peer", "1 MiB"), ("1 and 0", "write", "peer", "1 MiB"), ("all 2", "both", "peer", "1 MiB"),
    ("0 and 1", "both", "peer mapped", "1 MiB"), ("1 and 0", "read", "peer", "16 bytes"))]
PAIR_CHECKS = [
    Says(0, ["  31.508  PCIe 4 x16\n", *PAIRS, re.compile(f"0 and 1 +write .* {link}\\n"),
             "another's memory (column), GB/s\n            0       1\n"],
         "bench pcie --quick --size 4M --sizes 1M --repeat 2",
         {"LD_LIBRARY_PATH": os.path.join(BUILD, "nvml_stand_in"), "ZG_STANDIN_DEVICES": "2",
          "ZG_NVML_STAND_IN": os.path.join(FOLDER, f"gpus-{gpus}.txt")})
    for gpus, link in (("none", "15.754  PCIe 3 x16"), ("direct", "53.124  NVLink x2"),
                       ("switch", "478.116  NVLink x18"))]
