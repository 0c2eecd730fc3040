# SPDX-License-Identifier: Apache-2.0
"""`zerogauge check` of an adapter whose packages this process has imported: its launches are forked from here."""
import hashlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from zerogauge import warm
from zerogauge.command import program


def claims_file(claims):
    text = json.dumps(claims).encode()
    # A file that stays, because check prints commands that repeat a finding.
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zerogauge"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"claims-{hashlib.sha256(text).hexdigest()[:16]}.json"
    path.write_bytes(text)
    return path


def judge(claims, adapter, main, options, stdout=None):
    """Judges an adapter by `zerogauge check`, whose launches are forked from this process. claims: a dict; adapter: the
    command that starts it, as a list; main: a function of the arguments behind that command, which answers a launch;
    options: of check; stdout: as in subprocess. Returns check's exit status."""
    words = [program(), "check", "--claims", str(claims_file(claims)), *options]
    command = ["--", *adapter, "{cases}", "{answers}", "{world}", "{state}"]
    signal.signal(signal.SIGINT, lambda *_: None)  # check is interrupted, too, and ends what it has launched
    short = None if len(tempfile.gettempdir()) < 64 else "/tmp"  # the path of a socket has at most 107 bytes
    with tempfile.TemporaryDirectory(dir=short) as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/socket")
        listener.listen()
        listener.settimeout(0.1)
        wrapper = shlex.join([sys.executable, "-I", "-S", warm.__file__, "launch", f"{folder}/socket"])
        with subprocess.Popen([*words, "--wrapper", wrapper, *command], stdout=stdout) as process:
            while process.poll() is None:
                try:
                    connection, _ = listener.accept()
                except socket.timeout:
                    continue
                with connection:
                    connection.settimeout(None)
                    warm.attend(lambda arguments: main(arguments[len(adapter):]), connection)
    return process.returncode
