"""Networks whose parts on the processor have others of the TPU before, between and behind them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session

from tests.chips.processor_networks import Drawn
from tests.families import each


@pytest.mark.chip("bm1684x")
@each("seed", [3, 33])
def test_networks_of_several_images_compute_what_top_says(seed: int, tmp_path: Path) -> None:
    drawn, session = Drawn(seed, 3), Session(chip="bm1684x", quantize="f32", cpu_ops=("ROIPooling",))
    module = drawn.read(tmp_path)
    loaded = session.chip.load(session.build(module).data)
    assert len(loaded.host_calls) > 2
    assert len(loaded.outputs) > 2
    found = loaded.run(drawn.given)
    for name, expected in Interpreter(module).run(drawn.given).items():
        assert np.array_equal(found[name].reshape(expected.shape), expected), name
