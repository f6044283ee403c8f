"""Run the node tests of ONNX on the simulators: how many pass, are refused with a sentence, and are wrong.

python benchmarks/onnx_node_tests.py --chip c --mode f32 [--only PATTERN] [--list FILE]
"""

from __future__ import annotations

import argparse
import collections
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from tpuc import onnx_backend


def arrays_of(test: Any) -> tuple[list[Any], list[Any]]:
    """Inputs and outputs of a case; those that are no tensors are None."""
    inputs, outputs = test.data_sets[0]
    return [*map(array_of, inputs)], [*map(array_of, outputs)]


def array_of(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    return numpy_helper.to_array(value) if hasattr(value, "raw_data") else None


def verdict(test: Any, backend: type[onnx_backend.SimulatorBackend]) -> tuple[str, str]:
    """`passed`, `refused` or `wrong`, and why."""
    inputs, wanted = arrays_of(test)
    if any(one is None for one in (*inputs, *wanted)):
        return "refused", "no tensor: a sequence or an optional"
    try:
        found = backend.prepare(test.model).run(inputs)
    except onnx_backend.Refused as error:
        return "refused", " ".join(str(error).split())
    except Exception as error:  # noqa: BLE001  # counted as wrong
        return "wrong", f"{type(error).__name__}: {error}"
    for got, right in zip(found, wanted, strict=True):
        if got.shape != right.shape:
            return "wrong", f"shape {got.shape}, not {right.shape}"
        try:
            np.testing.assert_allclose(
                got.astype(np.float64), right.astype(np.float64), rtol=max(test.rtol, 1e-3), atol=max(test.atol, 1e-5)
            )
        except AssertionError as error:
            return "wrong", " ".join(str(error).split())[:200]
    return "passed", ""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--chip", default="c")
    parser.add_argument("--mode", default="f32")
    parser.add_argument("--only", default="")
    parser.add_argument("--list", type=Path, dest="lines")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    backend = onnx_backend.backend_for(options.chip, options.mode)
    counts, reasons = collections.Counter[str](), collections.Counter[str]()
    lines: list[str] = []
    tests = [one for one in load_model_tests(kind="node") if re.search(options.only, one.name)]
    for test in tests:
        kind, why = verdict(test, backend)
        counts[kind] += 1
        lines.append(f"{kind}\t{test.name}\t{why}")
        if kind == "refused":
            reasons[re.sub(r"'[^']*'|\d+", "_", why)[:100]] += 1
        if kind == "wrong":
            print(f"{test.name}: {why}", flush=True)
        if options.lines is not None:
            options.lines.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{options.chip} {options.mode}: {len(tests)} node tests, {dict(counts)}")
    for reason, count in reasons.most_common(15):
        print(f"{count:5} {reason}")


if __name__ == "__main__":
    main()
