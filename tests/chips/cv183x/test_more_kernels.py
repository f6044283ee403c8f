"""Kernels beyond those of `test_kernels`: instructions compute what the TPU op says, under all tilings."""

from __future__ import annotations

import pytest
from tpuc.registry import Registry
from tpuc.testing.kernel_conformance import Sample, compile_kernels

from tests.chips.cv183x.deconv_cases import DECONVS
from tests.chips.cv183x.matmul_cases import PRODUCTS
from tests.chips.cv183x.pad_cases import PADS
from tests.chips.cv183x.steps import check_steps

GROUPS = {"deconvs": DECONVS, "pads": PADS, "products": PRODUCTS}


@pytest.mark.parametrize("samples", GROUPS.values(), ids=GROUPS)
def test_the_simulator_equals_the_evaluation(samples: dict[str, Sample]) -> None:
    registry = Registry()
    compiled = compile_kernels(samples, "cv183x", registry)
    loaded = registry.get("tpuc.chips", "cv183x").load(compiled.data, "kernels")
    integers, floats = check_steps(compiled.module, {**loaded.run(compiled.inputs), **compiled.inputs})
    assert integers + floats == sum(1 + len(sample.tilings) for sample in samples.values())
