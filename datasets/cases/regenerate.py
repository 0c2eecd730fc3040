#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""regenerate.py CASES: makes the numbers of all cases in the folder CASES, which `zerogauge check --write-cases CASES`
wrote, a second time, as GENERATOR.md says and from nothing else, and holds the files against vN/cases.txt of every suite
version N. Needs only Python. Names what differs; exit status 1 if anything does."""
import glob
import hashlib
import json
import os
import struct
import sys

from generator import generator


def pack(value, dtype):
    return struct.pack("<e" if dtype == "F16" else "<f", value)[2 if dtype == "BF16" else 0:]


def check(folder, line):
    """How many numbers the case has, and what is wrong with it."""
    def read(name):
        with open(os.path.join(folder, name), "rb") as file:
            return file.read()
    case = json.loads(read("case.json"))
    names, initial, gradient = generator(case, line[3:])
    half = case["checkpoint"] or {"phase": "", "step": 0}
    steps = {"": range(1, case["steps"] + 1), "save": range(1, half["step"] + 1),
             "resume": range(half["step"] + 1, case["steps"] + 1)}[half["phase"]]
    files = ["case.json", "init.safetensors"] + [f"grads-{step}.safetensors" for step in steps]
    digest = hashlib.sha256(b"".join(map(read, files))).hexdigest()
    count, wrong = 0, [] if digest == line[0] else [f"its SHA-256 is {digest}; frozen is {line[0]}"]
    for step, name in zip([0, *steps], files[1:]):
        data = read(name)
        length = 8 + struct.unpack("<Q", data[:8])[0]
        for tensor, entry in json.loads(data[8:length]).items():
            micro, rank, param = tensor.split("/") if step else ("m0", "r0", tensor)
            begin, end = (length + offset for offset in entry["data_offsets"])
            width, param = len(pack(0, entry["dtype"])), names.index(param)
            for i, at in enumerate(range(begin, end, width)):
                value = gradient(step, int(micro[1:]), int(rank[1:]), param, i) if step else initial(param, i)
                if data[at:at + width] != pack(value, entry["dtype"]):
                    wrong.append(f"{name}: {tensor}[{i}] is {data[at:at + width][::-1].hex()}, expected {value.hex()}")
                count += 1
    return count, wrong


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    frozen = {}
    for path in glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "v*", "cases.txt")):
        with open(path, encoding="ascii") as file:
            frozen.update((line.split()[2], line.split()) for line in file)
    numbers = failed = 0
    cases = sorted(name for name in os.listdir(sys.argv[1]) if name != "order.json")
    for name in cases:
        path = os.path.join(sys.argv[1], name)
        count, wrong = check(path, frozen[name]) if name in frozen else (0, ["is a case of no vN/cases.txt"])
        numbers, failed = numbers + count, failed + bool(wrong)
        for text in wrong[:5]:
            print(f"{name}: {text}")
    print(f"{len(cases)} cases, {numbers} numbers, {failed} cases differ")
    sys.exit(failed > 0 or numbers == 0)


main()
