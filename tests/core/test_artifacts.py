"""What compiled files say of their inputs: behind the compiled bytes, or in a file beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tpuc.data import Preprocess
from tpuc.errors import CorruptFile
from tpuc.session.artifacts import read_artifact, write_artifact

from tests.core.fakes import FakeChip

INPUTS = {"image": Preprocess((1.5, 2.0, 3.0), (0.1,), "rgb", (256, 300), True, "nhwc", "short_side_scale", 114)}
DATA = b"compiled bytes" * 10


class Trailing(FakeChip):
    """A chip whose files may be followed by anything."""

    allows_trailer = True


@pytest.fixture(params=[Trailing, FakeChip], ids=["behind", "beside"])
def chip(request: pytest.FixtureRequest) -> FakeChip:
    return request.param("toy")


def test_a_description_is_read_as_it_was_written(chip: FakeChip, tmp_path: Path) -> None:
    path = tmp_path / "net.toy"
    write_artifact(chip, path, DATA, INPUTS)
    assert read_artifact(chip, path) == (DATA, (INPUTS,))
    write_artifact(chip, path, DATA, {}, INPUTS)
    assert read_artifact(chip, path) == (DATA, ({}, INPUTS))


def test_files_without_a_description_are_the_compiled_bytes(chip: FakeChip, tmp_path: Path) -> None:
    path = tmp_path / "net.toy"
    write_artifact(chip, path, DATA, {})
    assert [one.name for one in tmp_path.iterdir()] == ["net.toy"]
    assert path.read_bytes() == DATA
    assert read_artifact(chip, path) == (DATA, ())


def test_the_description_of_other_bytes_does_not_count(tmp_path: Path) -> None:
    path, chip = tmp_path / "net.toy", FakeChip("toy")
    write_artifact(chip, path, DATA, INPUTS)
    write_artifact(chip, path, DATA[1:], {})
    assert read_artifact(chip, path) == (DATA[1:], ())


def test_a_damaged_description_is_refused(tmp_path: Path) -> None:
    path, chip = tmp_path / "net.toy", Trailing("toy")
    write_artifact(chip, path, DATA, INPUTS)
    path.write_bytes(path.read_bytes().replace(b'"mean"', b'"mear"'))
    with pytest.raises(CorruptFile, match=r"net.toy: its description of the inputs is damaged; compile the network"):
        read_artifact(chip, path)
