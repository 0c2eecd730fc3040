# SPDX-License-Identifier: Apache-2.0
"""The command `zerogauge`: the program of the wheel, which lies next to this file; else the one in PATH."""
import hashlib
import os
import subprocess
import sys
from pathlib import Path


def program():
    own = Path(__file__).resolve().parent / "bin" / "zerogauge"
    return str(own) if own.exists() else "zerogauge"


def main():
    if sys.argv[1:2] == ["convert"]:
        from zerogauge.convert import main as convert  # needs more than Python alone
        convert(sys.argv[2:])
        return 0
    if sys.argv[1:2] == ["adapters"]:
        from zerogauge.starts import main as adapters
        return adapters(sys.argv[2:])
    return os.execvp(program(), [program(), *sys.argv[1:]])


def judge(adapter, options, stdout=None):
    """Judges an adapter by `zerogauge check`. adapter: its command, as a list; options: of check; stdout: as in
    subprocess. Returns check's exit status."""
    claims = subprocess.run([*adapter, "--claims"], stdout=subprocess.PIPE, check=True).stdout
    # A file that stays, because check prints commands that repeat a finding.
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zerogauge"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"claims-{hashlib.sha256(claims).hexdigest()[:16]}.json"
    path.write_bytes(claims)
    return subprocess.run([program(), "check", "--claims", path, *options, "--", *adapter, "{cases}", "{answers}",
                           "{world}", "{state}"], stdout=stdout, check=False).returncode
