"""`python -m tpuc` is the command line."""

from __future__ import annotations

import sys

from tpuc.cli import main

sys.exit(main())
