"""What compiled files say of their inputs and layers: behind the compiled bytes, or in a file beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tpuc.api import LayerCommands
from tpuc.errors import CorruptFile
from tpuc.ir.preprocess import Preprocess
from tpuc_driver.session.artifacts import Description, read_artifact, write_artifact

from tests.core.fakes import FakeChip

INPUTS = Description(
    {"image": Preprocess((1.5, 2.0, 3.0), (0.1,), "rgb", (256, 300), True, "nhwc", "short_side_scale", 114)}
)
LABELS = Description(labels=("cat", "döner"))
LAYERS = Description(
    layers=(
        LayerCommands("convé", "tpu.Conv2D", {"compute": ((1, 3), (5, 5)), "dma": ((1, 1),)}),
        LayerCommands("flat", "tpu.Reshape", {}),
    )
)
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
    write_artifact(chip, path, DATA, Description(), INPUTS)
    assert read_artifact(chip, path) == (DATA, (Description(), INPUTS))
    write_artifact(chip, path, DATA, LABELS)
    assert read_artifact(chip, path) == (DATA, (LABELS,))


def test_files_without_a_description_are_the_compiled_bytes(chip: FakeChip, tmp_path: Path) -> None:
    path = tmp_path / "net.toy"
    write_artifact(chip, path, DATA, Description())
    assert [one.name for one in tmp_path.iterdir()] == ["net.toy"]
    assert path.read_bytes() == DATA
    assert read_artifact(chip, path) == (DATA, ())


def test_the_description_of_other_bytes_does_not_count(tmp_path: Path) -> None:
    path, chip = tmp_path / "net.toy", FakeChip("toy")
    write_artifact(chip, path, DATA, INPUTS)
    write_artifact(chip, path, DATA[1:], Description())
    assert read_artifact(chip, path) == (DATA[1:], ())


def test_a_damaged_description_is_refused(tmp_path: Path) -> None:
    path, chip = tmp_path / "net.toy", Trailing("toy")
    write_artifact(chip, path, DATA, INPUTS)
    path.write_bytes(path.read_bytes().replace(b'"mean"', b'"mear"'))
    with pytest.raises(CorruptFile, match=r"net.toy: its metadata is damaged, or from another version"):
        read_artifact(chip, path)


def test_layers_travel_behind_the_compiled_bytes_alone(chip: FakeChip, tmp_path: Path) -> None:
    path = tmp_path / "net.toy"
    write_artifact(chip, path, DATA, LAYERS, INPUTS)
    data, found = read_artifact(chip, path)
    assert data == DATA
    assert found == ((LAYERS, INPUTS) if chip.allows_trailer else (Description(), INPUTS))
    path.unlink()
    for old in tmp_path.iterdir():
        old.unlink()
    write_artifact(chip, path, DATA, LAYERS)
    assert [one.name for one in tmp_path.iterdir()] == ["net.toy"]
    assert read_artifact(chip, path) == (DATA, (LAYERS,) if chip.allows_trailer else ())


def test_damaged_layers_are_refused(tmp_path: Path) -> None:
    path, chip = tmp_path / "net.toy", Trailing("toy")
    write_artifact(chip, path, DATA, LAYERS)
    text = path.read_bytes()
    for old, new in (
        (b'"layers":[[', b'"layers":[[7,'),
        (b'"layers":[[', b'"layers":[[],['),
        (b"networks", b"networkz"),
    ):
        assert old in text
        path.write_bytes(text.replace(old, new))
        with pytest.raises(CorruptFile, match="its metadata is damaged"):
            read_artifact(chip, path)


def test_files_that_say_nothing_of_layers_are_still_read(tmp_path: Path) -> None:
    path, chip = tmp_path / "net.toy", Trailing("toy")
    write_artifact(chip, path, DATA, INPUTS)
    assert b"layers" not in path.read_bytes()
    assert read_artifact(chip, path) == (DATA, (INPUTS,))
