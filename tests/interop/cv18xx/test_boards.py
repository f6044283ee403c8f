"""Versions and memory of files, as the vendor's runtime and tool see them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from tpuc_cv18.container import CviModel
from tpuc_cv18.isa import Target
from tpuc_cv18.runtimes import Version
from tpuc_driver.session import Session

from tests.chips.cv18.networks import MODES, build
from tests.chips.cv18xx import NAMES, TARGETS
from tests.conftest import RunVendor
from tests.models.networks import Network
from tests.vendor_runs import VendorRunError, VendorRuns

pytestmark = pytest.mark.interop
DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits"
MIB = 1 << 20
TAKEN = [(1, 4, 1), (1, 2, 0), (2, 4, 0), (0, 9, 0)]


def _compiled(chip: str, version: str, path: Path) -> Path:
    session = Session(chip=chip, quantize="bf16", runtime_version=version)
    path.write_bytes(session.build(session.transform(DIGITS / "digits.onnx")).data)
    return path


@pytest.mark.parametrize("chip", NAMES)
def test_the_runtime_takes_files_for_itself_and_for_older_ones(
    chip: str, run_vendor: RunVendor, tmp_path: Path
) -> None:
    image = {"image": np.random.default_rng(0).integers(0, 17, (1, 1, 8, 8)).astype(np.float32)}
    new, old = (_compiled(chip, version, tmp_path / f"{version}.cvimodel") for version in ("1.4", "1.3"))
    (wanted,), (found,) = run_vendor(new, image).values(), run_vendor(old, image).values()
    assert_array_equal(found, wanted)


@pytest.mark.parametrize("target", TARGETS, ids=NAMES)
@pytest.mark.parametrize("version", [*TAKEN, (1, 5, 0), (1, 255, 0), (2, 5, 0)], ids=str)
def test_the_runtime_refuses_what_is_refused_here(
    target: Target, version: Version, oracle_dir: Path, vendor_runs: VendorRuns, tmp_path: Path
) -> None:
    path = _compiled(target.name, "1.4", tmp_path / "net.cvimodel")
    model = CviModel.from_bytes(path.read_bytes(), target)
    path.write_bytes(replace(model, version=version).to_bytes())
    refused = Session().open(path)[1].refused_by("1.4")
    assert (refused is None) == (version in TAKEN)
    told = nullcontext() if refused is None else pytest.raises(VendorRunError, match=re.escape(refused))
    with told:
        vendor_runs.run(path, {"image": np.zeros((1, 1, 8, 8), np.float32)})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("chip", NAMES)
def test_the_vendors_tool_counts_as_much_memory(
    chip: str, mode: str, network: Callable[[str], Network], oracle_dir: Path, tmp_path: Path
) -> None:
    built = build(network("resnet8"), chip, mode)
    path = tmp_path / "net.cvimodel"
    path.write_bytes(built.plain)
    ours = sum(built.session.chip.load(built.plain).device_bytes.values()) / MIB
    environment = Path(os.environ.get("PEER") or Path.home() / ".cache" / "tpuc-peer")
    shown = subprocess.run(
        [environment / "bin" / "model_tool", "--info", path], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"Need ION Memory Size: \(([\d.]+) MB\)", shown)
    assert found is not None, shown
    assert abs(float(found.group(1)) - ours) <= 0.005 + 1e-9  # two digits are shown
