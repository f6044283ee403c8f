"""The TOP ops of `test_lowerings` on the vendor's functional model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.chips.cv18.lowered import check_layers, compile_layers
from tests.chips.cv18.more_lowering_cases import LAYERS
from tests.chips.cv18.steps import check_steps
from tests.chips.cv18.vendor import assert_same_bits
from tests.chips.layer_cases import LayerCase
from tests.conftest import RunVendor
from tests.turns import due

pytestmark = pytest.mark.interop


MODES = ("int8", "bf16")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layers", [layers for _, layers in LAYERS], ids=[name for name, _ in LAYERS])
def test_the_vendors_model_equals_simulator_and_evaluation(
    layers: Mapping[str, LayerCase], mode: str, thorough: bool, run_vendor: RunVendor, tmp_path: Path
) -> None:
    in_both = {name: layer for name, layer in layers.items() if all(map(layer.has, MODES))}
    turns = due(in_both, MODES, mode)
    layers = {name: layer for name, layer in layers.items() if thorough or name in turns or name not in in_both}
    compiled = compile_layers(layers, mode)
    path = tmp_path / "ops.cvimodel"
    path.write_bytes(compiled.data)
    vendor = run_vendor(path, compiled.inputs)
    check_steps(compiled.final, {**vendor, **compiled.inputs})
    check_layers(layers, mode, compiled, vendor)
    assert_same_bits(compiled.session.chip.load(compiled.data).run(compiled.inputs), vendor)
