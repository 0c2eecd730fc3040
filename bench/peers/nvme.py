# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's asynchronous I/O (ds_io): the whole file through one aio_handle and a locked buffer, with O_DIRECT."""
import time

from peer import main


def body(peer):
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
