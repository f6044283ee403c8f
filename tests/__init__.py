"""All tests, which run on one thread each: workers and other runs on the machine take the other processors.

Packages of numbers read these variables when they are imported, so they are set before anything else is.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
