#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a wheel (packaging.python.org/specifications/binary-distribution-format) of a folder:

    make_wheel.py FOLDER OUT VERSION TAG

FOLDER holds the package zerogauge; TAG is as in py3-none-manylinux_2_36_x86_64. Prints the wheel's path. Its bytes
depend on FOLDER, VERSION and TAG alone."""
import base64
import hashlib
import sys
import zipfile
from pathlib import Path

METADATA = """Metadata-Version: 2.1
Name: zerogauge
Version: {version}
Summary: conformance suite, benchmark and reference implementation for ZeRO-style training
License: Apache-2.0
Requires-Python: >=3.9
Requires-Dist: numpy
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/markdown

{description}"""
WHEEL = """Wheel-Version: 1.0
Generator: zerogauge
Root-Is-Purelib: false
Tag: {tag}
"""
ENTRY_POINTS = """[console_scripts]
zerogauge = zerogauge.command:main

[pytest11]
zerogauge = zerogauge.pytest_plugin
"""
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file knows


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def main(folder, out, version, tag):
    readme = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
    info = f"zerogauge-{version}.dist-info"
    files = {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode & 0o777)
             for path in sorted(Path(folder).rglob("*")) if path.is_file()}
    for name, text in (("METADATA", METADATA.format(version=version, description=readme)),
                       ("WHEEL", WHEEL.format(tag=tag)), ("entry_points.txt", ENTRY_POINTS)):
        files[f"{info}/{name}"] = text.encode(), 0o644
    record = [f"{name},sha256={digest(data)},{len(data)}" for name, (data, _) in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,\n"]).encode(), 0o644
    wheel = Path(out) / f"zerogauge-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (data, mode) in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    print(wheel)


if __name__ == "__main__":
    main(*sys.argv[1:])
