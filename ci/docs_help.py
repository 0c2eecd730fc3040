# SPDX-License-Identifier: Apache-2.0
"""For ci/docs: what the scripts of ci/ say to --help, to -h and to an option that they do not have."""
import concurrent.futures
import os
import pathlib
import subprocess
import tempfile

from docs_page import ROOT, run

# Programs that install, build, fetch or change something. The first folder in PATH has stand-ins, which note their
# names and fail.
ACTS = ("apt-get apt-cache pip pip3 cmake ctest ninja make cc gcc g++ clang nvcc docker podman curl wget sudo unshare "
        "mount mpirun srun mmdebstrap mktemp mkdir rm cp touch").split()


def ask(script, word, folder):
    """Whether the answer is right; what is wrong with it otherwise."""
    acted = pathlib.Path(tempfile.mkstemp(dir=folder)[1])
    environment = {**os.environ, "PATH": f"{folder}/stubs:{os.environ['PATH']}", "ACTED": str(acted),
                   "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run([str(ROOT / script), word], env=environment, cwd=folder, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return f"{word}: no answer within a minute"
    status = 2 if word == "--no-such-option" else 0
    said = done.stderr if status else done.stdout
    if acted.read_text():
        return f"{word}: runs {' '.join(acted.read_text().split())} first"
    if done.returncode != status or len(said.split()) < 5 or (status and word not in said):
        return f"{word}: status {done.returncode}, expected {status} and an answer: {(done.stderr or said)[-200:]!r}"
    return ""


def help_of_scripts(verify):
    rows = (row.split() for row in run("git", "ls-files", "-s", "ci", ".ci").stdout.splitlines())
    scripts = [row[3] for row in rows if row[0] == "100755" and (ROOT / row[3]).exists()]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        os.mkdir(f"{folder}/stubs")
        for name in ACTS:
            stub = pathlib.Path(folder, "stubs", name)
            stub.write_text(f'#!/bin/sh\necho {name} >>"$ACTED"\nexit 99\n')
            stub.chmod(0o755)
        for script in scripts:
            for wrong in pool.map(lambda word: ask(script, word, folder), ("--help", "-h", "--no-such-option")):
                verify(not wrong, script, wrong)
