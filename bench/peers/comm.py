# SPDX-License-Identifier: Apache-2.0
"""Collectives of torch.distributed with gloo, one process per rank with one thread each."""
import time

from peer import main, ranks, serve_ranks


class Buffers:
    """A rank's buffers of one size, with data whose sums are exact."""

    def __init__(self, rank, world, operation, buffer_bytes):
        import torch
        count = buffer_bytes // 4 // world * world
        share, places = count // world, torch.arange(count)
        whole = [((places * 7 + 13 * r) % 251).float() for r in range(world)]  # each rank's data
        mine = slice(rank * share, (rank + 1) * share)
        if operation == "all-gather":
            self.send, self.expected = whole[0][mine].clone(), whole[0]
        elif operation == "all-reduce":
            self.send, self.expected = whole[rank], sum(whole)
        else:
            self.send, self.expected = whole[rank], sum(whole)[mine]
        self.recv = torch.empty_like(self.expected)


def work(rank, peer):
    import torch
    import torch.distributed as dist
    world, operation = peer.setting["world"], peer.setting["operation"]
    if operation not in ("all-gather", "all-reduce", "reduce-scatter"):
        raise ValueError(f"{operation}: expected all-gather, all-reduce or reduce-scatter")
    buffers = None

    def call():
        """Times one collective after a barrier. all_reduce works in place, so its buffer is filled before."""
        send, recv = buffers.send, buffers.recv
        recv.copy_(send) if operation == "all-reduce" else recv.fill_(-1)
        dist.barrier()
        begin = time.perf_counter_ns()
        if operation == "all-gather":
            dist.all_gather_into_tensor(recv, send)
        elif operation == "all-reduce":
            dist.all_reduce(recv)
        else:
            dist.reduce_scatter_tensor(recv, send)
        took = time.perf_counter_ns() - begin
        if not torch.equal(recv, buffers.expected):
            wrong = int((recv != buffers.expected).sum())
            raise ValueError(f"{operation}: {wrong} elements are wrong on rank {rank}")
        return took

    def obey(request):
        nonlocal buffers
        if request["do"] == "size":
            buffers = Buffers(rank, world, operation, request["buffer_bytes"])
            return {}
        took = torch.tensor(float(sum(call() for _ in range(request["calls"]))), dtype=torch.float64)
        dist.all_reduce(took, op=dist.ReduceOp.MAX)
        return {"ns": took.item()}
    serve_ranks(rank, peer, f"PyTorch {torch.__version__.split('+')[0]} gloo", obey)


if __name__ == "__main__":
    main(lambda peer: ranks(peer, peer.setting["world"], work))
