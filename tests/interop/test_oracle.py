"""The oracle itself runs here, and its refusals reach the reader."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.conftest import RunVendor

pytestmark = pytest.mark.interop


def test_hand_made_file_gives_its_expected_output(oracle_dir: Path, sample_bmodel: Path, run_vendor: RunVendor) -> None:
    with np.load(oracle_dir / "samples" / "handmade_conv_int8_bmodel.npz") as sample:
        x, y = sample["x"], sample["y"]
    result = run_vendor(sample_bmodel, {"x": x})
    assert list(result) == ["y"]
    assert np.array_equal(result["y"], y)


def test_refusal_fails_the_test_with_the_vendors_words(sample_bmodel: Path, run_vendor: RunVendor) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"(?s)handmade_conv_int8\.bmodel: .*input 'x' is missing"):
        run_vendor(sample_bmodel, {})
