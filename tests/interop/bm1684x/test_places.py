"""Gathers, scatters, comparisons and order on the vendor's functional model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.session import Session
from tpuc_testing.kernel_conformance import compile_kernels
from tpuc_testing.values import build_exposed

from tests.chips.bm1684x.kernels import place_samples
from tests.chips.bm1684x.kernels.test_place_lowerings import MODES, whole_network
from tests.chips.bm1684x.steps import check_steps
from tests.chips.bm1684x.test_embeddings import compiled as compiled_embeddings
from tests.chips.bm1684x.test_embeddings import sentences
from tests.chips.few_samples import chosen
from tests.chips.lowered import EVERYTHING_IN_INTEGERS
from tests.conftest import RunVendor

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("subject", place_samples.ALL)
def test_the_vendors_model_equals_the_evaluation(
    subject: str, thorough: bool, run_vendor: RunVendor, tmp_path: Path
) -> None:
    compiled = compile_kernels(chosen(place_samples.ALL[subject], thorough), "bm1684x")
    path = tmp_path / f"{subject}.bmodel"
    path.write_bytes(compiled.data)
    # npz files have no bf16; the runtime takes its bits.
    inputs = {name: x.view(np.uint16) if x.dtype.name == "bfloat16" else x for name, x in compiled.inputs.items()}
    compiled.compare(run_vendor(path, inputs))


@pytest.mark.parametrize("mode", MODES)
def test_the_vendors_model_gives_what_lowered_ops_evaluate_to(
    mode: str, thorough: bool, run_vendor: RunVendor, tmp_path: Path
) -> None:
    module, inputs, table = whole_network(mode, thorough)
    session = Session(chip="bm1684x", quantize=mode, pipelines=EVERYTHING_IN_INTEGERS)
    final, data = build_exposed(session, module, table if mode.startswith("int8") else None)
    path = tmp_path / "model.bmodel"
    path.write_bytes(data)
    assert check_steps(final, run_vendor(path, inputs) | inputs).total() > (150 if thorough else 40)


@pytest.mark.parametrize("mode", ["f16", "int8"])
def test_the_vendors_model_looks_up_tokens_as_the_simulator(mode: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    path = compiled_embeddings(mode, tmp_path)
    loaded = Session(chip="bm1684x").chip.load(path.read_bytes())
    for ids in sentences(2):
        inputs = {"ids": ids.astype(np.float32)}
        expected, found = loaded.run(inputs), run_vendor(path, inputs)
        for name, array in expected.items():
            # Sums of products are added in another order.
            assert np.abs(found[name].reshape(array.shape) - array).max() <= 2e-3 * np.abs(array).max(), name
