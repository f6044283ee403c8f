"""Write `goldens/clock.json.gz` anew from the vendor's clock.

python -m tests.chips.bm1688.timing.make_golden --oracle FOLDER
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

from tests.chips.bm1688.timing.commands import commands
from tests.chips.bm1688.timing.test_clock import GOLDEN
from tests.chips.bm1688.timing.vendor import Clock

COUNT, SEED = 2500, 0


def main() -> None:
    """Commands that the clock cannot time are left out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oracle", type=Path, required=True)
    drawn = commands(COUNT, SEED)
    with Clock(parser.parse_args().oracle) as clock:
        timed = zip(drawn, clock.costs(drawn), strict=True)
    rows = [(one.engine.value, one.encode(1, 0).hex(), cost) for one, cost in timed if isinstance(cost, int)]
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_bytes(gzip.compress(json.dumps(rows).encode(), mtime=0))


if __name__ == "__main__":
    main()
