# SPDX-License-Identifier: Apache-2.0
"""Prints what one of the configurations in claims.json claims: python -m zerogauge.adapters.claims NAME."""
import json
import sys
from pathlib import Path

if __name__ == "__main__":
    claims = json.loads(Path(__file__).with_suffix(".json").read_text())
    if len(sys.argv) != 2 or sys.argv[1] not in claims:
        sys.exit(f"usage: python -m zerogauge.adapters.claims NAME, of {', '.join(claims)}")
    print(json.dumps(claims[sys.argv[1]], indent=2))
