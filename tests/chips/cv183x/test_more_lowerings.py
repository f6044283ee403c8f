"""More TOP ops by themselves: the lowered op is close to the float one, and the file computes the lowered op."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.chips.cv183x.more_lowering_cases import LAYERS, Layer, check_layers, compile_layers
from tests.chips.cv183x.steps import check_steps


@pytest.mark.parametrize("mode", ["int8", "bf16"])
@pytest.mark.parametrize("layers", [layers for _, layers in LAYERS], ids=[name for name, _ in LAYERS])
def test_lowered_ops_are_close_and_the_file_computes_them(layers: Mapping[str, Layer], mode: str) -> None:
    compiled = compile_layers(layers, mode)
    got = compiled.session.chip.load(compiled.data).run(compiled.inputs)
    check_steps(compiled.final, {**got, **compiled.inputs})
    check_layers(layers, mode, compiled, got)
