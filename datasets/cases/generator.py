# SPDX-License-Identifier: Apache-2.0
"""GENERATOR.md as a Python program, written from its text alone."""
import math

MASK = 2**64 - 1
INITIAL, EXPONENT, INTEGER, MEAN, DEVIATION, VALUE, PLACE = range(1, 8)  # streams


def mix(x):
    x = x + 0x9E3779B97F4A7C15 & MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def below(x, n):
    return x * n >> 64


def integer(x, r):
    return 0 if x % 16 == 0 else below(x, 2 * r + 1) - r


def generator(case, words):
    """Two functions: an element of an initial parameter, and of a gradient on a rank; words are the settings of
    vN/cases.txt."""
    mesh = case.get("mesh", {"replicate": 1, "shard": case["world"], "tensor": 1, "pipeline": 1, "expert": 1})
    sequence, params, family = mesh.get("sequence", 1), case["params"], words[0]
    world = mesh["replicate"] * mesh["shard"] // sequence
    slots, bits = world * case["accumulation"], {"fp32": 23, "bf16": 7, "fp16": 10}[case["precision"]]
    pairs = [(word + "=1").split("=")[:2] for word in words[1:]]
    have = {key: int(value, 16 if key == "seed" else 10) for key, value in pairs if key != "poke"}
    zero_steps = {int(value) for key, value in pairs if key == "zero_step"}
    pokes = [value.split("/") for key, value in pairs if key == "poke"]
    pokes = {tuple(map(int, place)): float.fromhex(value) for *place, value in pokes}
    names = [param["name"] for param in params]
    owners = [names.index(param["tied_to"] or param["name"]) for param in params]
    ties = [sum(p["tied_to"] == name and p["used"] for p in params) for name in names]

    def draw(stream, step, slot, param, element):
        key = have["seed"]
        for part in (stream, 1 if "steps_alike" in have else step, slot, param, element):
            key = mix(key ^ mix(part))
        return key

    def number(x, exponent):
        value = math.ldexp((1 << bits) + ((x & MASK >> 1) >> 63 - bits), exponent - bits)
        return -value if x >> 63 else value

    def exponent_of(step, owner, element):
        x = draw(EXPONENT, step, 0, 0, 0) if "square_norm" in have else draw(EXPONENT, step, 0, owner, element)
        return have["low"] + below(x, have["high"] - have["low"] + 1)

    def mean(step, owner, element):
        x = draw(MEAN, step, 0, owner, element)
        if "square_norm" not in have:
            return integer(x, have["reach"])
        n = (1, 1, 3, 5)[(element + draw(MEAN, step, 1, owner, element // 4)) % 4]
        return -n if x >> 63 else n

    def deviation(step, slot, param, element):
        return integer(draw(DEVIATION, step, slot % slots, param, element), have["spread"])

    def paired(step, micro, rank, param, element):
        place = (rank + below(draw(PLACE, step, micro, param, element), world)) % world
        if place % 2 == 1 and place == world - 1:
            return 0
        x = draw(INTEGER, step, micro * world + (place + 1) // 2, param, element)
        n = 0 if x % 16 == 0 else 1 << below(x, have["reach"].bit_length())
        return -n if (x >> 4 & 1 if place == 0 else place % 2 == 0) else n

    def exact(step, micro, rank, param, element):
        slot, owner = micro * world + rank, owners[param]
        if "paired" in have:
            return paired(step, micro, rank, param, element)
        if "same_mean" not in have:
            n = integer(draw(INTEGER, step, slot, param, element), have["reach"])
            return n << have.get("lead", 0) if micro == 0 else n
        share = 1 + ties[param] if owner == param else -1
        apart = deviation(step, slot, param, element) - deviation(step, slot + 1, param, element)
        return share * mean(step, owner, element) + apart

    def initial(param, element):
        x = draw(INITIAL, 1, 0, param, element)
        return number(x, have["init"] - 1 - x % 3)

    def gradient(step, micro, rank, param, element):
        slot, owner = micro * world + rank, owners[param]
        if (step, micro, rank, param, element) in pokes:
            return pokes[step, micro, rank, param, element]
        if step in zero_steps:
            return 0.0
        if family == "exact":
            n = have["unit"] * exact(step, micro, rank, param, element)
            return math.ldexp(n, exponent_of(step, owner, element))
        if family == "rounding":
            x = draw(VALUE, step, slot, param, element)
            return number(x, have["low"] + below(mix(x), have["high"] - have["low"] + 1))
        if below(draw(PLACE, step, 0, owner, element), slots) != slot:
            return 0.0
        return number(draw(VALUE, step, 0, param, element), exponent_of(step, owner, element))

    def whole_element(place, shape, tensor_rank, element):
        if place["tensor"] != "cut":
            return element
        cut = place["dimension"]
        run = shape[cut] // mesh["tensor"] * math.prod(shape[cut + 1:])
        return (element // run * mesh["tensor"] + tensor_rank) * run + element % run

    def part(step, micro, rank, param, element):
        if "mesh" not in case:
            return gradient(step, micro, rank, param, element)
        place, tensor_rank = params[param]["placement"], rank % mesh["tensor"]
        data = rank // mesh["tensor"] % (world * sequence)
        element = whole_element(place, params[param]["shape"], tensor_rank, element)
        group = 1 if place["expert"] is None else mesh["expert"]
        first = data // group * group

        def share(value, number, ranks):
            turn = (number + element) % ranks
            return value if ranks == 1 else 2 * value if turn == 0 else -value if turn == 1 else 0.0

        value, *others = (share(gradient(step, micro, d // sequence, param, element), d % sequence, sequence)
                          for d in range(first, first + group))
        value = sum(others, value)  # which leaves a single -0.0 as it is
        return share(value, tensor_rank, mesh["tensor"]) if place["tensor"] == "partial" else value

    return names, initial, part
