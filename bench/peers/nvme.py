# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's asynchronous I/O: the whole file through one aio_handle and a locked buffer, with O_DIRECT. With --ds-io
DeepSpeed's own benchmark of it, on a file of that size in the same folder, by its own clock."""
import os
import re
import subprocess
import sys
import tempfile
import time

from peer import main


def ds_io(peer, folder):
    """Each run has three passes over the file. The tool verifies the data only with --validate, which takes time: so
    it does once, before the timed runs."""
    import deepspeed
    setting, loops = peer.setting, 3
    command = ["ds_io", "--folder", folder, "--io_size", str(setting["file_bytes"]), "--loops", str(loops),
               "--block_size", str(setting["block_bytes"]), "--queue_depth", str(setting["depth"])]
    if setting["direction"] == "read":
        command.append("--read")

    def run(_, *more):
        done = subprocess.run(command + list(more), capture_output=True, text=True, check=False)
        latency_s = re.search(r"Task \w+ Latency = (\S+) sec", done.stdout)
        if done.returncode or not latency_s:
            raise OSError(f"ds_io: {(done.stderr.strip() or done.stdout.strip())[-300:]}")
        return {"ns": float(latency_s[1]) * 1e9, "bytes": setting["file_bytes"] * loops}
    run(None, "--validate")
    peer.say(name=f"DeepSpeed {deepspeed.__version__} ds_io")
    peer.serve(run=run)


def body(peer):
    if "--ds-io" in sys.argv:
        with tempfile.TemporaryDirectory(dir=os.path.dirname(os.readlink(peer.setting["file"]))) as folder:
            return ds_io(peer, folder)
    import deepspeed
    import torch
    from deepspeed.ops.op_builder import AsyncIOBuilder
    setting = peer.setting
    file, count = setting["file"], setting["file_bytes"]
    handle = AsyncIOBuilder().load().aio_handle(setting["block_bytes"], setting["depth"], False, True, 1)
    memory = handle.new_cpu_locked_tensor(count, torch.empty(0, dtype=torch.uint8))
    expected = torch.arange(count // 8)
    buffer = memory.view(torch.int64)

    def move(call):
        if call(memory, file, 0) < 0:
            raise OSError("aio_handle failed")

    def check():
        buffer.zero_()
        move(handle.sync_pread)
        if not torch.equal(buffer, expected):
            raise ValueError(f"{int((buffer != expected).sum())} of {count // 8} words are wrong")

    def run(_):
        reads = setting["direction"] == "read"
        if reads:
            buffer.zero_()
        else:
            expected.add_(1)
            buffer.copy_(expected)
        moved, begin = 0, time.perf_counter_ns()
        while time.perf_counter_ns() - begin < setting["seconds"] * 1e9:
            move(handle.sync_pread if reads else handle.sync_pwrite)
            moved += count
        took = time.perf_counter_ns() - begin
        if not reads:
            check()
        elif not torch.equal(buffer, expected):
            raise ValueError(f"{int((buffer != expected).sum())} of {count // 8} words are wrong")
        return {"ns": took, "bytes": moved}
    buffer.copy_(expected)
    move(handle.sync_pwrite)
    check()
    peer.say(name=f"DeepSpeed {deepspeed.__version__} aio_handle")
    peer.serve(run=run)


if __name__ == "__main__":
    main(body)
