"""Samples from folders and lists: order, counting, shapes, and what is said about files that do not fit."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from tpuc.errors import CalibrationError
from tpuc.ir.preprocess import Preprocess
from tpuc.registry import Offer, Registry
from tpuc_driver.data.samples import SampleInput, SampleSource, open_samples

from tests.core.data.readers import READER
from tests.families import each

Array = NDArray[Any]

X = SampleInput("x", (1, 2, 3))


def ramp(*shape: int, dtype: type[np.generic] = np.float32) -> Array:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def values(source: SampleSource, name: str = "x") -> list[Any]:
    return [sample[name].tolist() for sample in source]


def write_list(folder: Path, *lines: str) -> Path:
    file = folder / "list.txt"
    file.write_text("\n".join(lines) + "\n")
    return file


class TestArrays:
    @each("shape", [(1, 2, 3), (2, 3), (1, 1, 2, 3)])
    def test_the_inputs_own_shape_is_one_sample(self, tmp_path: Path, shape: tuple[int, ...]) -> None:
        np.savez(tmp_path / "a.npz", x=ramp(*shape))
        assert values(open_samples([X], tmp_path)) == [[[[0, 1, 2], [3, 4, 5]]]]

    @each("shape", [(4, 2, 3), (4, 1, 2, 3), (4, 2, 3, 1)])
    def test_a_leading_axis_counts_samples(self, tmp_path: Path, shape: tuple[int, ...]) -> None:
        np.savez(tmp_path / "a.npz", x=ramp(*shape))
        source = open_samples([X], tmp_path)
        assert len(source) == 4
        assert values(source)[1] == [[[6, 7, 8], [9, 10, 11]]]
        assert all(sample["x"].shape == (1, 2, 3) and sample["x"].dtype == np.float32 for sample in source)

    def test_npy_files_follow_the_same_rule(self, tmp_path: Path) -> None:
        np.save(tmp_path / "b.npy", ramp(2, 3))
        np.save(tmp_path / "a.npy", 10 + ramp(2, 2, 3))
        assert [v[0][0][0] for v in values(open_samples([X], tmp_path))] == [10, 16, 0]

    def test_a_larger_batch(self, tmp_path: Path) -> None:
        batched = SampleInput("x", (2, 3))
        np.save(tmp_path / "a_exact.npy", ramp(2, 3))
        np.save(tmp_path / "b_rows.npy", 10 + ramp(4, 3))
        np.save(tmp_path / "c_batches.npy", 30 + ramp(3, 2, 3))
        found = values(open_samples([batched], tmp_path))
        assert found[0] == [[0, 1, 2], [3, 4, 5]]
        assert found[1] == [[10, 11, 12], [10, 11, 12]]  # a row fills the whole batch
        assert [f[0][0] for f in found[1:5]] == [10, 13, 16, 19]
        assert found[5:] == [[[a, a + 1, a + 2], [a + 3, a + 4, a + 5]] for a in (30, 36, 42)]

    def test_gray_images_need_no_channel_axis(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "digits.npz", x=ramp(5, 4, 4, dtype=np.uint8), y=np.arange(5))
        source = open_samples([SampleInput("Input3", (1, 1, 4, 4))], tmp_path)
        assert len(source) == 5
        assert next(iter(source))["Input3"].dtype == np.float32
        assert values(source, "Input3")[4][0][0][0] == [64, 65, 66, 67]

    def test_integer_inputs_stay_integers(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "a.npz", ids=np.array([[3, 5]]))
        (sample,) = open_samples([SampleInput("ids", (1, 2), np.int32)], tmp_path)
        assert (sample["ids"].dtype, sample["ids"].tolist()) == (np.int32, [[3, 5]])

    def test_several_inputs_in_one_file(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "a.npz", x=ramp(3, 2, 3), mask=ramp(3, 4))
        found = list(open_samples([X, SampleInput("mask", (1, 4))], tmp_path))
        assert [list(sample) for sample in found] == [["x", "mask"]] * 3
        assert [sample["mask"].tolist() for sample in found] == [[[0, 1, 2, 3]], [[4, 5, 6, 7]], [[8, 9, 10, 11]]]

    def test_a_source_can_be_read_again(self, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", ramp(3, 2, 3))
        source = open_samples([X], tmp_path)
        assert values(source) == values(source)


class TestFolders:
    def test_order_is_by_path_and_other_files_are_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "cats").mkdir()
        for name, value in (("b.npy", 2), ("cats/a.npy", 3), ("a.npy", 1)):
            np.save(tmp_path / name, np.full((2, 3), value))
        (tmp_path / "labels.tsv").write_text("a\t1\n")
        assert [v[0][0][0] for v in values(open_samples([X], tmp_path))] == [1, 2, 3]

    @each(("wanted", "expected"), [(0, 5), (2, 2), (4, 4), (9, 5)])
    def test_input_num(self, tmp_path: Path, wanted: int, expected: int) -> None:
        np.save(tmp_path / "a.npy", ramp(3, 2, 3))
        np.save(tmp_path / "b.npy", ramp(2, 2, 3))
        source = open_samples([X], tmp_path, input_num=wanted)
        assert len(source) == len(list(source)) == expected

    def test_images_go_through_the_preprocessing(self, tmp_path: Path) -> None:
        Image.new("RGB", (4, 4), (10, 20, 30)).save(tmp_path / "a.JPEG", quality=100)
        Image.new("RGB", (2, 2), (10, 20, 30)).save(tmp_path / "b.png")
        one = SampleInput("image", (2, 3, 2, 2), preprocess=Preprocess(mean=(10,), scale=(0.5,), pixel_format="rgb"))
        found = list(open_samples([one], tmp_path))
        assert len(found) == 2
        assert found[1]["image"].shape == (2, 3, 2, 2)
        assert found[1]["image"][:, :, 0, 0].tolist() == [[0, 5, 10], [0, 5, 10]]


class TestLists:
    def test_one_sample_per_line_with_a_file_for_each_input(self, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", np.full((2, 3), 7))
        np.savez(tmp_path / "m.npz", mask=ramp(1, 4), other=ramp(9))
        Image.new("L", (2, 2), 5).save(tmp_path / "p.png")
        inputs = [
            X,
            SampleInput("mask", (1, 4)),
            SampleInput("p", (1, 1, 2, 2), preprocess=Preprocess(pixel_format="gray")),
        ]
        source = open_samples(inputs, data_list=write_list(tmp_path, "# samples", "", "a.npy, m.npz,p.png"))
        (sample,) = source
        assert sample["x"].max() == 7
        assert sample["mask"].tolist() == [[0, 1, 2, 3]]
        assert sample["p"].tolist() == [[[[5, 5], [5, 5]]]]

    def test_order_is_that_of_the_list(self, tmp_path: Path) -> None:
        for value in (1, 2):
            np.save(tmp_path / f"{value}.npy", np.full((2, 3), value))
        source = open_samples([X], data_list=write_list(tmp_path, "2.npy", str(tmp_path / "1.npy"), "2.npy"))
        assert [v[0][0][0] for v in values(source)] == [2, 1, 2]


def refuse(message: str) -> Any:
    return pytest.raises(CalibrationError, match=re.escape(message))


class TestRefusals:
    def test_neither_or_both_sources(self, tmp_path: Path) -> None:
        for dataset, data_list in ((None, None), (tmp_path, tmp_path)):
            with refuse("samples: give a folder with --dataset, or a list of files with --data-list."):
                open_samples([X], dataset, data_list)
        with refuse("samples: --input-num -1 is negative. Use 0 for all samples."):
            open_samples([X], tmp_path, input_num=-1)

    def test_nothing_to_read(self, tmp_path: Path) -> None:
        with refuse(
            f"{tmp_path}: contains no samples. Samples are images, .npy or .npz files; 100 to 200 are usually enough."
        ):
            open_samples([X], tmp_path)
        with refuse("nowhere: no such file or folder. Give the samples with --dataset."):
            open_samples([X], tmp_path / "nowhere")
        with refuse("nowhere: No such file or directory. --data-list takes a text file with one sample per line."):
            open_samples([X], data_list=tmp_path / "nowhere")

    def test_lines_that_cannot_be_followed(self, tmp_path: Path) -> None:
        with refuse("list.txt:2: no file 'b.npy' beside the list or in the working folder. Correct the path."):
            open_samples([X], data_list=write_list(tmp_path, "# list", "b.npy"))
        with refuse("list.txt:1: an empty file name in 'a.npy,,b.npy'. Separate the files by one comma."):
            open_samples([X], data_list=write_list(tmp_path, "a.npy,,b.npy"))
        with refuse("list.txt: samples are images, .npy or .npz files. Convert it."):
            open_samples([X], data_list=write_list(tmp_path, "list.txt"))
        (tmp_path / "clip.mp4").touch()
        with refuse("clip.mp4: a video cannot be a sample. Extract its frames with `ffmpeg -i clip.mp4 "):
            open_samples([X], data_list=write_list(tmp_path, "clip.mp4"))

    def test_wrong_shape(self, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", ramp(3, 2))
        with refuse(
            "a.npy: shape (3, 2) does not fit input 'x' (1, 2, 3). Give arrays of this shape, or of this shape without "
            "batch and with a leading axis of samples."
        ):
            open_samples([X], tmp_path)
        (tmp_path / "a.npy").unlink()
        np.savez(tmp_path / "a.npz", x=ramp(5))
        with refuse("a.npz: array 'x' of shape (5,) does not fit input 'x' (1, 2, 3)."):
            open_samples([X], tmp_path)

    def test_no_array_or_too_many_for_an_input(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "a.npz", one=ramp(2, 3), two=ramp(4, 2, 3))
        with refuse(
            "a.npz: no array named 'x', and 2 arrays fit its shape (1, 2, 3); the file holds one (2, 3), two (4, 2, 3)."
            " Name the array like the input."
        ):
            open_samples([X], tmp_path)

    def test_one_array_does_not_stand_for_two_inputs(self, tmp_path: Path) -> None:
        both = [X, SampleInput("y", (1, 2, 3))]
        for name, first in (("q", "x"), ("x", "x")):
            np.savez(tmp_path / "a.npz", **{name: ramp(2, 3)})
            with refuse(
                f"a.npz: array '{name}' fits both '{first}' and 'y'. Give one array for each input, named like it."
            ):
                open_samples(both, tmp_path)
        np.savez(tmp_path / "a.npz", x=ramp(2, 3), y=ramp(2, 3))
        assert len(open_samples(both, tmp_path).samples) == 1

    def test_inputs_that_disagree(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "a.npz", x=ramp(3, 2, 3), y=ramp(2, 4))
        both = [X, SampleInput("y", (1, 4))]
        with refuse("a.npz: its inputs have different numbers of samples: x 3, y 2. Give the same number for each."):
            open_samples(both, tmp_path)
        np.save(tmp_path / "b.npy", ramp(2, 3))
        with refuse("b.npy: 1 file(s) for 2 inputs (x, y). Give one .npz with all of them, or one file per input"):
            open_samples(both, data_list=write_list(tmp_path, "b.npy"))

    @each("name", ["a.npy", "a.npz"])
    @each("content", [b"", b"no array", b"\x93NUMPY\x01\x00"])
    def test_damaged_files(self, tmp_path: Path, name: str, content: bytes) -> None:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(
            CalibrationError,
            match=rf"{name}: not a readable array file \(.*\)\. Replace it, or remove it",
        ):
            open_samples([X], tmp_path)

    def test_damage_inside_a_compressed_file(self, tmp_path: Path) -> None:
        file = tmp_path / "a.npz"
        np.savez_compressed(file, x=np.random.default_rng(0).random((50, 2, 3)))
        content = bytearray(file.read_bytes())
        content[400:900] = bytes(500)
        file.write_bytes(content)
        with refuse("a.npz: not a readable array file"):
            list(open_samples([X], tmp_path))

    @each("save", [np.save, np.savez], ids=["npy", "npz"])
    def test_files_cut_short(self, tmp_path: Path, save: Callable[..., None]) -> None:
        whole = tmp_path / "whole"
        save(whole, ramp(50, 2, 3))
        (found,) = tmp_path.glob("whole.*")
        found.write_bytes(found.read_bytes()[:300])
        with refuse("not a readable array file"):
            list(open_samples([X], tmp_path))

    @each(
        ("array", "dtype", "message"),
        [
            (
                np.array([np.nan, 1]),
                np.float32,
                "NaN or infinite values for input 'x'. Correct the sample",
            ),
            (np.array([0.5, 1]), np.int32, "input 'x' has values that int32 cannot represent. Convert the sample."),
            (np.array([300, 1]), np.uint8, "input 'x' has values that uint8 cannot represent. Convert the sample."),
            (np.array(["a", "b"]), np.float32, "holds <U1, not numbers. Give an array of numbers for input 'x'."),
            (
                np.array([1e300, 1.0]),
                np.float32,
                "input 'x' has values that float32 cannot represent. Convert the sample.",
            ),
            (
                np.array([2**24 + 1, 1]),
                np.float32,
                "input 'x' has values that float32 cannot represent. Convert the sample.",
            ),
            (
                np.array([2**63 - 1, 1]),
                np.float32,
                "input 'x' has values that float32 cannot represent. Convert the sample.",
            ),
        ],
    )
    def test_unusable_values(self, tmp_path: Path, array: Array, dtype: type[np.generic], message: str) -> None:
        np.save(tmp_path / "a.npy", array)
        with refuse(f"a.npy: {message}"):
            list(open_samples([SampleInput("x", (1, 2), dtype)], tmp_path))

    def test_pickles_are_never_loaded(self, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", np.array([{}, {}]), allow_pickle=True)
        with refuse("a.npy: not a readable array file"):
            list(open_samples([SampleInput("x", (1, 2))], tmp_path))


def test_inputs_without_dimensions_get_numbers(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", x=ramp(3, 2), rate=np.array([8.0, 16.0, 48.0], np.float32))
    source = open_samples([SampleInput("x", (1, 2)), SampleInput("rate", ())], dataset=tmp_path / "s.npz")
    got = [sample["rate"] for sample in source]
    assert [(one.shape, float(one)) for one in got] == [((), 8.0), ((), 16.0), ((), 48.0)]


def test_samples_are_found_in_another_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of a cluster run elsewhere than the command that names `--dataset cal`."""
    (tmp_path / "cal").mkdir()
    (tmp_path / "elsewhere").mkdir()
    np.savez(tmp_path / "cal" / "a.npz", x=np.ones((1, 2), np.float32))
    monkeypatch.chdir(tmp_path)
    source = open_samples([SampleInput("x", (1, 2))], dataset=Path("cal"))
    sent = pickle.dumps(source)
    monkeypatch.chdir(tmp_path / "elsewhere")
    received: SampleSource = pickle.loads(sent)  # noqa: S301  # ours
    assert next(iter(received))["x"].tolist() == [[1.0, 1.0]]
    assert len(received) == len(source) == 1


def test_files_of_other_kinds_have_readers(tmp_path: Path) -> None:
    offers = [Offer("tpuc.readers", "raw", "acme", "1.0", f"{READER.__module__}:READER")]
    source = SampleInput("x", (1, 2))
    np.array([1, 2], "<f4").tofile(tmp_path / "a.RAW")
    np.save(tmp_path / "b.npy", np.array([[3, 4]], np.float32))
    registry = Registry(offers=offers)
    assert [row["x"].tolist() for row in open_samples([source], tmp_path, registry=registry)] == [[[1, 2]], [[3, 4]]]
    assert len(open_samples([source], tmp_path, registry=Registry(offers=[]))) == 1
    np.array([1, 2, 3], "<f4").tofile(tmp_path / "a.RAW")
    with pytest.raises(CalibrationError, match=r"3 numbers do not fill an input \(1, 2\)"):
        list(open_samples([source], tmp_path, registry=registry))
