# SPDX-License-Identifier: Apache-2.0
"""Collectives of torch.distributed with gloo, one process per rank with one thread each."""
import time

from peer import main, ranks, serve_ranks


def work(rank, peer):
    import torch
    import torch.distributed as dist
    setting = peer.setting
    world, operation = setting["world"], setting["operation"]
    count = setting["buffer_bytes"] // 4 // world * world
    share, places = count // world, torch.arange(count)
    whole = [((places * 7 + 13 * r) % 251).float() for r in range(world)]  # each rank's data; sums are exact
    mine = slice(rank * share, (rank + 1) * share)
    if operation == "all-gather":
        send, recv = whole[0][mine].clone(), torch.empty(count)
        expected = whole[0]
    elif operation == "all-reduce":
        send, recv = whole[rank], torch.empty(count)
        expected = sum(whole)
    else:
        send, recv = whole[rank], torch.empty(share)
        expected = sum(whole)[mine]

    def call():
        """Times one collective after a barrier. all_reduce works in place, so its buffer is filled before."""
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
        if not torch.equal(recv, expected):
            raise ValueError(f"{operation}: {int((recv != expected).sum())} elements are wrong on rank {rank}")
        return took

    def run(request):
        took = torch.tensor(float(sum(call() for _ in range(request["calls"]))), dtype=torch.float64)
        dist.all_reduce(took, op=dist.ReduceOp.MAX)
        return {"ns": took.item()}
    serve_ranks(rank, peer, f"PyTorch {torch.__version__.split('+')[0]} gloo", run)


if __name__ == "__main__":
    main(lambda peer: ranks(peer, peer.setting["world"], work))
