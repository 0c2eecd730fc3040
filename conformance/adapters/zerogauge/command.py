# SPDX-License-Identifier: Apache-2.0
"""The command `zerogauge`: the program of the wheel, which lies beside this file."""
import os
import sys
from pathlib import Path


def main():
    program = Path(__file__).resolve().parent / "bin" / "zerogauge"
    os.execv(program, [str(program), *sys.argv[1:]])
