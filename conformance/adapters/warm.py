# SPDX-License-Identifier: Apache-2.0
"""Launches an adapter from a process that has already imported its packages, because importing takes longer than most
launches.

    python warm.py serve SOCKET ADAPTER.py [OPTION...]   imports the adapter with these options, and listens
    python warm.py launch SOCKET ARGUMENT...             runs a launch; passes on its output and exit status

Every launch is forked, with the state of a new process. If the launcher ends, so do the launch's processes;
memory limits on the launcher do not apply to them."""
import json
import os
import runpy
import select
import signal
import socket
import sys
from pathlib import Path


def run(adapter, request, files):
    """Runs in the forked process of a launch, in its own process group."""
    os.setpgid(0, 0)
    for number, file in enumerate(files, start=1):
        os.dup2(file, number)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = [str(adapter), *request["arguments"]]
    runpy.run_path(str(adapter), run_name="__main__")


def end(group):
    """Kills all remaining processes of a launch."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def attend(adapter, connection):
    """Runs in a process of its own during the launch: sends the launcher the exit status, and kills the launch if
    the launcher has ended."""
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
        if select.select([connection], [], [], 0.02)[0]:  # the launcher sends nothing more, so it has ended
            break
        done, status = os.waitpid(pid, os.WNOHANG)
    end(pid)
    if done:
        connection.send(bytes([os.waitstatus_to_exitcode(status) % 256]))
    os._exit(0)


def serve(path, adapter, *options):
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
