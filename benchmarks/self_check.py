"""How often the interval of the self-check covers the agreement on unseen data, and how wide it is.

`python benchmarks/self_check.py --model-data DIR [--draws N] [NETWORK ...]`: each network is calibrated on draws of its
calibration and evaluation samples, and the agreement of the compiled network with float is counted on all others.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc_driver.confidence import share_interval
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_driver.work import one_blas_thread

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.models.rows import ROWS, load, lower, run

NETWORKS = ("lenet", "mnist", "kws01", "ic01", "vww01")
DRAWS = 5
SAMPLES = 100


def _top(scores: NDArray[Any]) -> int:
    return int(np.argmax(scores))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(NETWORKS)}; all by default")
    parser.add_argument("--model-data", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=DRAWS, help="per network")
    arguments = parser.parse_args()
    covered, sampled, widths = 0, 0, list[float]()
    print("| network | draw | self-check | interval | unseen | covered |\n|---|--:|--:|---|--:|---|")
    with one_blas_thread():
        for name in arguments.networks or NETWORKS:
            row, module = ROWS[name], load(ROWS[name], arguments.model_data)
            (spec,) = inputs_of(module)
            data = arguments.model_data / "data"
            samples = [
                one.reshape(spec.shape).astype(np.float32) for one in (*row.calibration(data), *row.samples(data))
            ]
            exact = [_top(*one.values()) for one in run(module, [], samples)]
            for draw in range(arguments.draws):
                order: list[int] = np.random.default_rng(draw).permutation(len(samples)).tolist()
                with tempfile.TemporaryDirectory() as folder:
                    arrays: dict[str, Any] = {spec.name: np.stack([samples[one] for one in order[:SAMPLES]])}
                    np.savez(Path(folder) / "samples.npz", **arrays)
                    options = {"hold_out": True}
                    session = Session(chip="bm1684x", quantize="int8")
                    table, check = session.calibrate_and_check(
                        module.clone(), dataset=Path(folder) / "samples.npz", options=options
                    )
                assert check is not None
                rest = order[SAMPLES:]
                lowered = lower(module, "bm1684x", table)
                got = run(lowered, [], [samples[one] for one in rest])
                found = [_top(*one.values()) for one in got]
                same = [exact[place] == one for place, one in zip(rest, found, strict=True)]
                truth = float(np.mean(same))
                interval = check.interval
                # The truth is counted, too: an interval that its own interval touches says nothing wrong.
                own = share_interval(truth, len(rest))
                inside = interval.low <= truth <= interval.high
                covered += inside
                sampled += own.low <= interval.high and interval.low <= own.high
                widths.append(interval.high - interval.low)
                print(
                    f"| {name} | {draw} | {check.worst.same} of {check.worst.total} | {interval.low:.1%} to "
                    f"{interval.high:.1%} | {truth:.1%} of {len(rest)} | {'yes' if inside else 'no'} |",
                    flush=True,
                )
    count = len(widths)
    print(
        f"\n{covered} of {count} intervals cover the counted agreement ({sampled} its own interval); mean width "
        f"{np.mean(widths):.1%}"
    )


if __name__ == "__main__":
    main()
