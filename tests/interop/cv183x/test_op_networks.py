"""The networks of `test_op_networks` on the vendor's functional model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.chips.cv18.op_networks import Array
from tests.chips.cv18.vendor import assert_same_bits
from tests.chips.cv183x.test_op_networks import LEAST_COSINE, build_network, check_network
from tests.conftest import RunVendor

pytestmark = pytest.mark.interop


@pytest.mark.parametrize(("name", "mode"), LEAST_COSINE)
def test_the_vendors_model_equals_the_evaluation(name: str, mode: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    built = build_network(name, mode, tmp_path)

    def run(data: bytes) -> Mapping[str, Array]:
        path = tmp_path / "model.cvimodel"
        path.write_bytes(data)
        vendor = run_vendor(path, built.inputs)
        assert_same_bits(built.session.chip.load(data).run(built.inputs), vendor)
        return vendor

    check_network(built, run, LEAST_COSINE[name, mode])
