# SPDX-License-Identifier: Apache-2.0
"""Launches of an adapter by a process that has its packages imported, which takes longer than most launches do.

    python warm.py serve SOCKET ADAPTER.py [OPTION...]   imports the adapter as if launched with the options, and listens
    python warm.py launch SOCKET ARGUMENT...             is a launch: its output, its exit status, and its end

Every launch is forked, and as new as a process of its own. Where a launcher is ended, so are the launch's processes;
limits of memory do not see them."""
import json
import os
import runpy
import select
import signal
import socket
import sys
from pathlib import Path


def run(adapter, request, files):
    """The forked process of a launch, in a group of its own."""
    os.setpgid(0, 0)
    for number, file in enumerate(files, start=1):
        os.dup2(file, number)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = [str(adapter), *request["arguments"]]
    runpy.run_path(str(adapter), run_name="__main__")


def end(group):
    """Ends what a launch has left, or all of it."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def attend(adapter, connection):
    """The forked process beside a launch: tells the launcher its status, and ends it when the launcher is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    text, files, _, _ = socket.recv_fds(connection, 1 << 20, 2)
    pid = os.fork()
    if pid == 0:
        connection.close()
        return run(adapter, json.loads(text), files)
    for file in files:
        os.close(file)
    done, status = os.waitpid(pid, os.WNOHANG)
    while done == 0:
        if select.select([connection], [], [], 0.02)[0]:  # nothing more is ever sent: the launcher has ended
            break
        done, status = os.waitpid(pid, os.WNOHANG)
    end(pid)
    if done:
        connection.send(bytes([os.waitstatus_to_exitcode(status) % 256]))
    os._exit(0)


def serve(path, adapter, *options):
    sys.path.insert(0, str(adapter.parent))
    sys.argv = [str(adapter), *options]
    runpy.run_path(str(adapter), run_name="imported")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                return attend(adapter, connection)
            connection.close()


def launch(path, *arguments):
    request = {"folder": os.getcwd(), "environment": dict(os.environ), "arguments": arguments}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [json.dumps(request).encode()], [1, 2])
        status = connection.recv(1)
    return status[0] if status else 1


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], Path(sys.argv[3]).resolve(), *sys.argv[4:])
    else:
        sys.exit(launch(*sys.argv[2:]))
