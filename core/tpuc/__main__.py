"""`python -m tpuc` is the command line, which the driver has."""

from __future__ import annotations

import importlib
import sys

sys.exit(importlib.import_module("tpuc_driver.cli").main())
