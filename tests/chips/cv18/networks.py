"""Real networks: every op gives what it evaluates to on what a chip had, and whole files what their values say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import Module
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_testing.kernel_conformance import FLOAT_BOUNDS, float_error
from tpuc_testing.values import build_exposed

from tests.chips.cv18.steps import check_steps
from tests.models.measures import TASKS
from tests.models.networks import Network

MODES = ("int8", "bf16")
LARGER = (*((name, 1) for name in TASKS), ("mobilenet_v1", 4), ("blazeface", 4))
"""Networks and batches."""
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Built:
    """A network with all its values as outputs, the file as users get it, and one input."""

    session: Session
    final: Module
    exposed: bytes
    plain: bytes
    inputs: Arrays


def build(net: Network, chip: str, mode: str) -> Built:
    """One of the three small networks."""
    return _build(Session(chip=chip, quantize=mode), net.module, net.table if mode == "int8" else None, net.inputs(3))


def _build(session: Session, module: Module, table: Any, inputs: Arrays) -> Built:
    final, exposed = build_exposed(session, module, table)
    return Built(session, final, exposed, session.build(module, table).data, inputs)


def build_file(path: Path, name: str, batch: int, chip: str, mode: str, model_data: Path, work: Path) -> Built:
    """A network from a file, calibrated on three batches: of real images where there are some, else of noise."""
    session = Session(chip=chip, quantize=mode)
    module = session.transform(path, batch=batch)
    (spec,) = inputs_of(module)
    shape = (3, *spec.shape)
    if name in TASKS:
        samples = np.concatenate(TASKS[name].samples(model_data / "data")[: 3 * spec.shape[0]]).reshape(shape)
    else:
        samples = np.random.default_rng(7).uniform(0, 1, shape).astype(np.float32)
    table = None
    if mode == "int8":
        np.savez(work / "samples.npz", **{spec.name: samples})
        table = session.calibrate(module, dataset=work / "samples.npz", options={"tune_num": 0})
    return _build(session, module, table, {spec.name: samples[0]})


def check(built: Built, mode: str, run: Callable[[bytes], Arrays]) -> tuple[int, int]:
    """Compare both files, and return how many integer and float tensors were compared.

    In bf16 the plan of a file decides in which order channels are summed, and with it the last bits.
    """
    values = run(built.exposed)
    counts = check_steps(built.final, values)
    for name, array in run(built.plain).items():
        wanted, what = values[name].reshape(-1), f"{name} of the file without other outputs"
        if mode == "int8":
            assert np.array_equal(array.reshape(-1), wanted), what
        else:
            assert float_error(array.reshape(-1), wanted) <= FLOAT_BOUNDS["bfloat16"], what
    return counts
