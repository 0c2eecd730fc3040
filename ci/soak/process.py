# SPDX-License-Identifier: Apache-2.0
"""Runs one command to its end, or kills one of its processes at a given moment, and leaves nothing behind."""
import contextlib
import dataclasses
import os
import pathlib
import selectors
import shutil
import signal
import subprocess
import time

HANG_S = 300  # ends what hangs, and judges nothing
LINGER_S = 60  # after its first process has ended, a world's others end by themselves within this time
STUCK_S = 20  # mpirun, of whose world a process was killed, waits for none of it this long


@dataclasses.dataclass
class Kill:
    """after: seconds from the start. victim: from 0 to 1, which of the processes. interrupts: by SIGINT."""
    after: float
    victim: float = 0.0
    interrupts: bool = False


@dataclasses.dataclass
class Ended:
    status: int  # negative: the signal
    out: str
    err: str
    seconds: float
    killed: bool = False
    hung: bool = False
    stacks: str = ""  # where each thread of what hung was
    launcher_stuck: bool = False  # mpirun alone stayed after a kill, which is a fault of its own
    left: tuple = ()  # processes that had to be killed after the end


def session(leader):
    """The processes of a session, its leader first. A zombie counts while a thread of it lives and keeps its files."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = pathlib.Path(f"/proc/{entry}/stat").read_text(encoding="latin-1").rpartition(")")[2].split()
                if int(fields[3]) == leader and (fields[0] not in "ZX" or int(fields[17]) > 1):
                    found.append(int(entry))
    return sorted(found, key=lambda pid: (pid != leader, pid))


def stacks(leader):
    """Where the threads of a session's processes are."""
    texts = []
    for pid in session(leader):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            texts.append(pathlib.Path(f"/proc/{pid}/cmdline").read_text(encoding="latin-1").replace("\0", " "))
            if shutil.which("gdb"):
                words = ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all backtrace 12"]
                done = subprocess.run(words, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
                texts += [line for line in done.stdout.splitlines() if line.startswith(("Thread", "#"))]
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                texts.append(f"{task.name}: in the kernel: {(task / 'wchan').read_text(encoding='ascii')}")
    return "\n".join(texts)


def keep_nice(leader):
    """The kernel weighs sessions against each other; how nice a process is counts within its own alone."""
    with contextlib.suppress(OSError):
        pathlib.Path(f"/proc/{leader}/autogroup").write_text(str(os.nice(0)), encoding="ascii")


def kill_all(leader):
    for pid in session(leader):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Runner:
    """Runs commands one after the other in folders of its own; another thread may stop it."""

    def __init__(self, program, text, memory, disk):
        self.program, self.text = program, text
        self.work, self.tmp = (pathlib.Path(memory) / name for name in ("cwd", "tmp"))
        self.stores = tuple(pathlib.Path(folder) / "saved" for folder in (memory, disk))
        self.nvme = tuple(pathlib.Path(disk) / name for name in ("nvme-0", "nvme-1"))
        self.leader, self.stopped = None, False
        for folder in (self.work, self.tmp, *self.nvme):
            folder.mkdir(parents=True)
        self.environment = dict(
            os.environ, TMPDIR=str(self.tmp), OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
            OMPI_MCA_btl_vader_backing_directory=str(self.tmp), OMPI_MCA_hwloc_base_binding_policy="none",
            OMPI_MCA_mpi_yield_when_idle="1")

    def stop(self):
        self.stopped = True
        if self.leader:
            kill_all(self.leader)

    def run(self, words, kill=None, err_fd=None):
        """err_fd: a terminal in place of a pipe for its messages, which the caller reads."""
        begin = time.monotonic()
        child = subprocess.Popen(words, cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE if err_fd is None else err_fd,
                                 start_new_session=True)
        self.leader = child.pid
        keep_nice(child.pid)
        if self.stopped:
            kill_all(child.pid)
        ended = Ended(0, "", "", 0)
        launcher = os.path.basename(words[0]) == "mpirun"
        texts = self.read(child, begin, kill, ended, launcher)
        ended.status = child.wait()
        self.leader = None
        ended.out, ended.err = (text.decode("utf-8", "replace") for text in texts)
        ended.left = self.wait_for_session(child.pid, launcher or ended.killed)
        ended.seconds = time.monotonic() - begin
        return ended

    def read(self, child, begin, kill, ended, launcher):
        """Both outputs until they end; kills in between."""
        texts, pipes, alone_since = [b"", b""], selectors.DefaultSelector(), None
        for index, pipe in enumerate((child.stdout, child.stderr)):
            if pipe is not None:
                pipes.register(pipe, selectors.EVENT_READ, index)
        while pipes.get_map():
            waits = kill and not ended.killed
            due = begin + (kill.after if waits else HANG_S)
            watches = launcher and ended.killed
            ready = pipes.select(max(0.01, min(due - time.monotonic(), 0.5 if watches else HANG_S)))
            alone = watches and session(child.pid) == [child.pid]
            alone_since = (alone_since or time.monotonic()) if alone else None
            if ready or self.stopped:
                pass
            elif alone and time.monotonic() > alone_since + STUCK_S:
                ended.launcher_stuck = True
                kill_all(child.pid)
            elif time.monotonic() < due:
                continue
            elif waits:
                ended.killed = self.kill(child.pid, kill)
            elif not ended.hung:
                ended.hung, ended.stacks = True, stacks(child.pid)
                kill_all(child.pid)
            for key, _ in ready:
                got = os.read(key.fileobj.fileno(), 65536)
                texts[key.data] += got
                if not got:
                    pipes.unregister(key.fileobj)
                    key.fileobj.close()
        return texts

    @staticmethod
    def kill(leader, kill):
        """The victim is any process of an mpirun world, mpirun included."""
        alive = session(leader) or [leader]
        with contextlib.suppress(ProcessLookupError):
            os.kill(alive[min(int(kill.victim * len(alive)), len(alive) - 1)],
                    signal.SIGINT if kill.interrupts else signal.SIGKILL)
        return True

    @staticmethod
    def wait_for_session(leader, others):
        if not others:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(leader, 0)
                others = True
        until = time.monotonic() + LINGER_S
        left = session(leader) if others else []
        while left and time.monotonic() < until:
            time.sleep(0.02)
            left = session(leader)
        if left:
            kill_all(leader)
        return tuple(left)

    def remains(self):
        """Files where none should be, which are removed. What a killed mpirun leaves is not the program's."""
        found = []
        for folder in (self.work, self.tmp, *self.nvme):
            for path in folder.iterdir():
                if not (folder == self.tmp and path.name.startswith(("ompi.", "pmix", "vader_segment"))):
                    found.append(f"{folder.name}/{path.name}")
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        return found

    @staticmethod
    def forget(folder):
        shutil.rmtree(folder, ignore_errors=True)
