"""Makes the distributions of this folder importable, and gives what compiles with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from tpuc.interpreter import Interpreter
from tpuc.ir import Module
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_testing.packages import make_importable, offers_of
from tpuc_testing.values import build_exposed

from tests.third_party.distributions import ACME_OPS, ROOT, TOY_CHIP

make_importable(TOY_CHIP, ACME_OPS)

Arrays = Mapping[str, NDArray[Any]]


@pytest.fixture(scope="session")
def registry() -> Registry:
    """Our own plugins, the toy chip and the acme ops."""
    return Registry(offers=offers_of(ROOT, TOY_CHIP, ACME_OPS))


@dataclass(frozen=True)
class Compiled:
    """A network, compiled for a chip with every value as an output."""

    session: Session
    module: Module
    data: bytes

    def compare(self, inputs: Arrays) -> int:
        """Assert that the simulator gives the integers of the evaluation; returns how many integer tensors there are.

        Floats may differ by 1e-4 of the tensor's range: exponentials differ between numpy builds.
        """
        got = self.session.chip.load(self.data, "network").run(inputs)
        wanted = Interpreter(self.module).run(inputs, "all")
        integers = 0
        for name, array in got.items():
            reference = wanted[name]
            if array.dtype.kind in "iu":
                integers += 1
                assert array.dtype == reference.dtype
                assert np.array_equal(array, reference), f"{name}: {np.count_nonzero(array != reference)} differ"
            else:
                assert np.abs(array - reference).max() <= 1e-4 * max(float(np.ptp(reference)), 1e-30), name
        return integers

    def tilings(self) -> dict[str, tuple[dict[str, int], tuple[int, ...]]]:
        """Tile sizes and result shape of every op that was cut into tiles, by name."""
        found: dict[str, tuple[dict[str, int], tuple[int, ...]]] = {}
        for operation in self.module.main.operations:
            tiling: Any = operation.extra_attributes.get("tiling")
            if tiling is not None:
                sizes = {name: size.value for name, size in tiling.items}
                found[operation.name] = (sizes, operation.result.tensor.dims)
        return found


@pytest.fixture
def compile_graph(registry: Registry, tmp_path: Path) -> Callable[..., Compiled]:
    """Compiles an ONNX graph; int8 is calibrated on random samples of its inputs."""

    def run(
        graph: onnx.GraphProto,
        chip: str = "toy",
        domains: Mapping[str, int] | None = None,
        mode: str = "int8",
        opt: int | None = None,
    ) -> Compiled:
        path = tmp_path / f"{graph.name}.onnx"
        opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in {"": 17, **(domains or {})}.items()]
        onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
        session = Session(registry, chip=chip, quantize=mode, opt=opt)
        module = session.transform(path)
        if mode == "f32":
            return Compiled(session, *build_exposed(session, module))
        samples = tmp_path / "samples.npz"
        np.savez(samples, **random_inputs(graph, samples=4))
        table = session.calibrate(module, dataset=samples, method="max")
        return Compiled(session, *build_exposed(session, module, table))

    return run


def random_inputs(graph: onnx.GraphProto, seed: int = 0, samples: int = 0) -> dict[str, NDArray[np.float32]]:
    """Normally distributed values for every input; several `samples` along one more leading axis."""
    numbers = np.random.default_rng(seed)
    leading = (samples,) if samples else ()
    shapes = {value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim) for value in graph.input}
    return {name: numbers.normal(0, 2, leading + shape).astype(np.float32) for name, shape in shapes.items()}
