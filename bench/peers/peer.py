# SPDX-License-Identifier: Apache-2.0
"""The peer's side of the protocol in bench/peers/peer.h: setting, bytes and answers. Import it before PyTorch, which reads
the environment at import."""
import json
import os
import sys
import time

os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ["THP_MEM_ALLOC_ENABLE"] = "1"  # huge pages where the system provides them, as on our side


class Peer:
    def __init__(self):
        """Reads the setting, and redirects whatever libraries print to standard error."""
        self.input, self.output = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        line = self.input.readline()
        if not line:
            sys.exit(0)
        self.setting = json.loads(line)
        os.environ["OMP_NUM_THREADS"] = str(self.setting.get("threads", 1))

    def read(self, dtype, *shape):
        """Reads the next tensor from the bytes behind the setting."""
        import torch
        tensor = torch.empty(shape, dtype=dtype)
        if tensor.numel():
            self.input.readinto(memoryview(tensor.view(-1).view(torch.uint8).numpy()))
        return tensor

    def write(self, tensor):
        import torch
        self.output.write(memoryview(tensor.detach().contiguous().view(-1).view(torch.uint8).numpy()))

    def say(self, **answer):
        self.output.write(json.dumps(answer).encode() + b"\n")
        self.output.flush()

    def serve(self, **tasks):
        """Answers each request {"do": NAME, ...} with the result of tasks[NAME](request), until the input ends. A task
        that returns None has answered itself."""
        for line in self.input:
            request = json.loads(line)
            answer = tasks[request["do"]](request)
            if answer is not None:
                self.say(**answer)
            self.output.flush()


def main(body):
    """Runs body(peer). An error becomes the last answer."""
    peer = Peer()
    try:
        body(peer)
    except Exception as error:
        peer.say(error=f"{type(error).__name__}: {error}")
        raise


def timed(work, calls):
    begin = time.perf_counter_ns()
    for _ in range(calls):
        work()
    return {"ns": time.perf_counter_ns() - begin}


def ranks(peer, world, body):
    """Runs body(rank, peer) on `world` processes joined by gloo; this process is rank 0 and speaks the protocol."""
    import tempfile

    import torch
    import torch.distributed as dist
    with tempfile.TemporaryDirectory() as folder:
        others = world > 1 and torch.multiprocessing.start_processes(
            _join, (world, folder, body, peer), world - 1, join=False, daemon=True, start_method="fork")
        _join(-1, world, folder, body, peer)
        dist.destroy_process_group()
        if others:
            others.join()


def _join(index, world, folder, body, peer):
    import torch
    import torch.distributed as dist
    rank = index + 1
    if rank:  # only rank 0 uses the descriptors
        os.close(0)
        peer.output.close()
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_SIZE=str(world))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world)
    body(rank, peer)


def serve_ranks(rank, peer, name, run):
    """Rank 0 broadcasts requests, every rank calls run(request), and rank 0's result is the answer. The other ranks sleep
    between turns."""
    import torch.distributed as dist

    def everywhere(request):
        dist.broadcast_object_list([request], src=0)
        return run(request)

    if rank == 0:
        peer.say(name=name)
        peer.serve(run=everywhere, size=everywhere)
        dist.broadcast_object_list([None], src=0)
        return
    while True:
        request = [None]
        dist.broadcast_object_list(request, src=0)
        if request[0] is None:
            return
        run(request[0])
