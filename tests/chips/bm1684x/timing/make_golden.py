"""Write `goldens/clock.json.gz` anew from the vendor's clock.

python -m tests.chips.bm1684x.timing.make_golden --oracle FOLDER
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

from tests.chips.bm1684x.timing.test_clock import GOLDEN, commands, vendor_cycles

COUNT, SEED = 4000, 0


def main() -> None:
    """Commands that the clock cannot time are left out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oracle", type=Path, required=True)
    drawn = commands(COUNT, SEED)
    timed = zip(drawn, vendor_cycles(parser.parse_args().oracle, drawn), strict=True)
    rows = [(command.engine.value, command.encode(1, 0).hex(), cost) for command, cost in timed if cost is not None]
    GOLDEN.write_bytes(gzip.compress(json.dumps(rows).encode(), mtime=0))


if __name__ == "__main__":
    main()
