# SPDX-License-Identifier: Apache-2.0
"""`python -m zerogauge` is the command `zerogauge`."""
import sys

from zerogauge.command import main

sys.exit(main())
