# SPDX-License-Identifier: Apache-2.0
"""Launches an adapter from a process that has already imported its packages, because importing takes longer than most
launches. `python mine.py --check` is such a process, for all launches of its run; ci/peers has one for each adapter:

    python -m zerogauge.warm serve SOCKET ADAPTER.py [OPTION...]   imports the adapter with these options, and listens
    python -S warm.py launch SOCKET ARGUMENT...                    runs a launch; passes on its output and exit status

Every launch is forked, with the state of a new process, into the launcher's process group, where `zerogauge check`
counts and ends it. If the launcher ends, so do the launch's processes."""
import contextlib
import json
import os
import runpy
import signal
import socket
import sys


def run(main, request, files):
    """Runs in the forked process of a launch."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.setpgid(0, request["launcher"])
    for number in signal.SIGINT, signal.SIGTERM:
        signal.signal(number, signal.SIG_DFL)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    main(request["arguments"])


def attend(main, connection):
    """Runs a launch, as main(arguments) in a forked process; sends the launcher the exit status, and kills the launch
    if the launcher has ended."""
    import multiprocessing.connection  # the launcher does without
    text, files, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    request = json.loads(text)
    process = multiprocessing.get_context("fork").Process(target=run, args=(main, request, files))
    process.start()
    for file in files:
        os.close(file)
    # The launcher sends nothing more: if the connection is ready, it has ended.
    ended = process.sentinel in multiprocessing.connection.wait([process.sentinel, connection])
    if not ended:
        with contextlib.suppress(ProcessLookupError):  # where the process could not enter the group any more
            os.killpg(request["launcher"], signal.SIGKILL)
    process.join()
    if ended:
        connection.send(bytes([process.exitcode % 256]))


def serve(path, adapter, *options):
    def main(arguments):
        sys.argv = [adapter, *arguments]
        runpy.run_path(adapter, run_name="__main__")

    sys.argv = [adapter, *options]
    runpy.run_path(adapter, run_name="imported")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                attend(main, connection)
                os._exit(0)
            connection.close()


def launch(path, *arguments):
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    request = {"folder": os.getcwd(), "environment": dict(os.environ), "arguments": arguments, "launcher": os.getpid()}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2])
        status = connection.recv(1)
    return status[0] if status else 1


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], os.path.abspath(sys.argv[3]), *sys.argv[4:])
    else:
        sys.exit(launch(*sys.argv[2:]))
