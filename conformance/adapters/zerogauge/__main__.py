# SPDX-License-Identifier: Apache-2.0
"""`python -m zerogauge` is the command `zerogauge`."""
from zerogauge.command import main

main()
