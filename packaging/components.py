#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""components.py VERSION FOLDER: prints, as CycloneDX 1.5, the libraries that an installed program carries in
FOLDER/lib: each file's digest, and the Debian package that it is from with its version."""
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path


def component(library):
    package = {}
    for source in sorted((library.parents[1] / "share/doc/zerogauge/licenses").iterdir()):
        listed = subprocess.run(["dpkg-query", "-L", source.name], capture_output=True, text=True, check=False).stdout
        if any(Path(path).name == library.name for path in listed.split()):
            shown = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", source.name], capture_output=True,
                                   text=True, check=True).stdout
            package = {"version": shown, "purl": f"pkg:deb/debian/{source.name}@{shown}"}
    return {"type": "library", "name": library.name, **package,
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(library.read_bytes()).hexdigest()}]}


def main(version, folder):
    libraries = sorted((Path(folder) / "lib").iterdir())
    json.dump({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
               "metadata": {"component": {"type": "application", "name": "zerogauge", "version": version,
                                          "licenses": [{"license": {"id": "Apache-2.0"}}]}},
               "components": [component(library) for library in libraries if not os.path.islink(library)]},
              sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main(*sys.argv[1:])
