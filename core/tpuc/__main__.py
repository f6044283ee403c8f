"""Run the command line with `python -m tpuc`; the driver implements it."""

from __future__ import annotations

import importlib
import sys

sys.exit(importlib.import_module("tpuc_driver.cli").main())
