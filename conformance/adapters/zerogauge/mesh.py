# SPDX-License-Identifier: Apache-2.0
"""Where ranks are on a case's mesh, and which parts of the parameters they hold (CONTRACT.md, "A mesh")."""


class Mesh:
    """The degrees replicate, shard, tensor, pipeline, expert and sequence as attributes. A case without a mesh is one of
    as many shards as ranks."""

    def __init__(self, case, degrees):
        plain = {"replicate": 1, "shard": case.world, "tensor": 1, "pipeline": 1, "expert": 1}
        self.__dict__.update({"sequence": 1, **(degrees or plain)})
        self.is_given = bool(degrees)
        self.placements = {p["name"]: p["placement"] for p in case.params} if degrees else {}
        self.experts = 1 + max((at["expert"] for at in self.placements.values() if at["expert"] is not None), default=0)

    def coordinates(self, rank):
        """A rank's index in its group of each kind; data is of all replicas and shards."""
        rest, tensor = divmod(rank, self.tensor)
        pipeline, data = divmod(rest, self.shard * self.replicate)
        return {"tensor": tensor, "pipeline": pipeline, "data": data, "expert": data % self.expert}

    def holds(self, name, rank):
        place, at = self.placements.get(name), self.coordinates(rank)
        return place is None or (place["pipeline"] == at["pipeline"] and (
            place["expert"] is None or place["expert"] // (self.experts // self.expert) == at["expert"]))

    def cut(self, name):
        """The dimension along which a parameter is cut over the tensor ranks; None: it is not."""
        return self.placements[name]["dimension"] if name in self.placements else None

    def partial(self, name):
        """Whether each tensor rank has a share of the parameter's gradient."""
        return name in self.placements and self.placements[name]["tensor"] == "partial"

    def expert_of(self, name):
        return self.placements[name]["expert"] if name in self.placements else None

    def part(self, name, whole, rank):
        """A view of the part of a whole numpy array that a rank holds."""
        dimension = self.cut(name)
        if dimension is None:
            return whole
        size = whole.shape[dimension] // self.tensor
        begin = self.coordinates(rank)["tensor"] * size
        return whole[(slice(None),) * dimension + (slice(begin, begin + size),)]
