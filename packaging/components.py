#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""components.py VERSION FOLDER [SYSROOT]: prints, as CycloneDX 1.5, the libraries that an installed program carries in
FOLDER/lib: each file's digest, and the Debian package that it is from with its version. SYSROOT has the unpacked
packages of a program for another machine."""
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path


def version_of(package, sysroot):
    if sysroot:
        log = Path(sysroot, "usr/share/doc", package, "changelog.Debian.gz")
        return re.search(r"\((\S+)\)", gzip.decompress(log.read_bytes()).decode())[1]
    return subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True,
                          check=True).stdout


def component(library, sysroot):
    package = {}
    for source in sorted((library.parents[1] / "share/doc/zerogauge/licenses").iterdir()):
        listed = subprocess.run(["dpkg-query", "-L", source.name], capture_output=True, text=True, check=False).stdout
        if any(Path(path).name == library.name for path in listed.split()):
            shown = version_of(source.name, sysroot)
            package = {"version": shown, "purl": f"pkg:deb/debian/{source.name}@{shown}"}
    return {"type": "library", "name": library.name, **package,
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(library.read_bytes()).hexdigest()}]}


def main(version, folder, sysroot=None):
    libraries = sorted((Path(folder) / "lib").iterdir())
    json.dump({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
               "metadata": {"component": {"type": "application", "name": "zerogauge", "version": version,
                                          "licenses": [{"license": {"id": "Apache-2.0"}}]}},
               "components": [component(library, sysroot) for library in libraries if not os.path.islink(library)]},
              sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main(*sys.argv[1:])
