"""`tpuc eval` from its command line to its figures, which ONNX Runtime and numpy count again."""

from __future__ import annotations

import importlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image
from tpuc.registry import Registry
from tpuc_driver.api.host import open_pool
from tpuc_driver.cli import main
from tpuc_driver.session import Session
from tpuc_driver.session.artifacts import read_artifact
from tpuc_eval.datasets.arrays import Arrays
from tpuc_eval.evaluation import Evaluation, evaluate
from tpuc_eval.metrics.topk import TopK
from tpuc_eval.postprocess.scores import Scores
from tpuc_eval.protocols import DataRequest
from tpuc_eval.runnable import RunnableFile

from tests.families import each
from tests.tools.eval.dying import DyingSamples

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits"
EVALUATION = str(DIGITS / "digits_eval.npz")
AS_THEY_ARE = "--preprocess=none"


def eval_json(capture: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """What the command says for programs."""
    capture.readouterr()
    code = main(["eval", *arguments, "--json"])
    out, err = capture.readouterr()
    assert code == 0, err
    return json.loads(out)


def sentence(capture: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    """What the command says when it refuses."""
    capture.readouterr()
    assert main(["eval", *arguments]) == code
    out, err = capture.readouterr()
    assert out == ""
    return err


def runtime_scores(path: Path, images: Any) -> Any:
    onnxruntime: Any = importlib.import_module("onnxruntime")
    session: Any = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {session.get_inputs()[0].name: one})[0] for one in images])


def test_digits_as_onnx_runtime_counts_them(digits_onnx: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with np.load(EVALUATION) as data:
        images, labels = data["x"].astype(np.float32)[:, None, None], data["y"]
    scores = runtime_scores(digits_onnx, images)
    order = np.argsort(-scores, axis=1, kind="stable")
    wanted = {f"top-{k}": float((order[:, :k] == labels[:, None]).any(axis=1).sum() / 200) for k in (1, 5)}
    assert wanted["top-1"] == 0.99  # the example's own figure
    result = eval_json(capsys, str(digits_onnx), "--dataset", EVALUATION)
    assert result == {
        "dataset": EVALUATION,
        "metric": "top-k",
        "samples": 200,
        "skipped": [],
        "models": [{"model": str(digits_onnx), "figures": wanted}],
    }


def test_the_last_word_is_the_data(digits_onnx: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = eval_json(capsys, str(digits_onnx), "--dataset", EVALUATION, "--count=20")
    assert eval_json(capsys, str(digits_onnx), EVALUATION, "--count=20") == wanted
    assert eval_json(capsys, EVALUATION, f"--model-file={digits_onnx}", "--count=20") == wanted
    needed = "tpuc: no network or no data; give both, as in `tpuc eval MODEL DATASET`.\n"
    assert sentence(capsys) == sentence(capsys, EVALUATION) == needed
    assert "--dataset" in sentence(capsys, str(digits_onnx), str(digits_onnx), code=1)


def test_the_names_of_other_tools_work(digits_onnx: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [f"--model_file={digits_onnx}", f"--dataset={EVALUATION}", "--dataset_type=Arrays", "--count=50"]
    capsys.readouterr()
    assert main(["model_eval.py", *arguments, "--postprocess_type=topx"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:2]] == [["digits.onnx"], ["top-1", "1.0000"]]
    assert lines[-1] == f"50 samples of {EVALUATION}"


@dataclass(frozen=True)
class Forms:
    """The digits network as TOP module, and quantized per chip: the TPU module and the compiled file."""

    top: Path
    chips: list[tuple[Path, Path]]


@pytest.fixture(scope="module")
def digits_top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("top") / "digits.mlir"
    arguments = ["--model-name=digits", f"--model-def={DIGITS / 'digits.onnx'}", f"--mlir={top}"]
    assert main(["transform", *arguments]) == 0
    return top


@pytest.fixture(scope="module")
def digits_forms(digits_top: Path, tmp_path_factory: pytest.TempPathFactory) -> Forms:
    folder = tmp_path_factory.mktemp("digits")
    calibration = ["--quantize=int8", f"--dataset={DIGITS / 'digits_calib.npz'}", f"--work-dir={folder}"]
    registry = Registry()
    chips: list[tuple[Path, Path]] = []
    for chip in registry.names("tpuc.chips"):
        suffix = registry.get("tpuc.chips", chip).description.suffix
        target = folder / f"digits_{chip}{suffix}"
        assert main(["compile", str(DIGITS / "digits.onnx"), f"--chip={chip}", *calibration, "-o", str(target)]) == 0
        chips.append((folder / f"digits_{chip}_int8_sym_tpu.mlir", target))
    return Forms(digits_top, chips)


def test_every_format_side_by_side(digits_onnx: Path, digits_forms: Forms, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(digits_forms.top), *(str(path) for pair in digits_forms.chips for path in pair)]
    result = eval_json(capsys, str(digits_onnx), *files, "--dataset", EVALUATION, "--count=40")
    network, top, *quantized = result["models"]
    assert [one["model"] for one in result["models"]] == [str(digits_onnx), *files]
    assert top["figures"] == network["figures"]
    assert top["difference"] == {"top-1": 0.0, "top-5": 0.0}
    assert top["agreement"] == {"same top-1": 1.0}
    for tpu, compiled in zip(quantized[::2], quantized[1::2], strict=True):
        # the simulator computes bit for bit what the interpreter does
        assert (compiled["figures"], compiled["agreement"]) == (tpu["figures"], tpu["agreement"])
        assert compiled["difference"]["top-1"] == compiled["figures"]["top-1"] - network["figures"]["top-1"]
        assert compiled["agreement"]["same top-1"] >= 0.9  # what eight bits may cost here is for the accuracy tests


def test_the_table_has_a_column_per_network(
    digits_onnx: Path, digits_top: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["eval", str(digits_onnx), str(digits_top), "--dataset", EVALUATION, "--count=40"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["digits.onnx", "digits.mlir", "difference"]
    assert [row[0] for row in rows[1:3]] == ["top-1", "top-5"]
    assert rows[1][1] == rows[1][2]
    assert rows[1][3] == "+0.0000"
    assert rows[3] == ["same", "top-1", "1.0000"]


def test_options_of_images_are_for_files_that_do_not_say_it(
    digits_onnx: Path, digits_top: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    top = str(digits_top)
    both = eval_json(capsys, str(digits_onnx), top, "--dataset", EVALUATION, "--count=40", "--scale=1e-9")
    assert both["models"][0]["figures"]["top-1"] < 0.5  # every image is nearly the same to it
    assert both["models"][1]["figures"]["top-1"] > 0.9
    said = sentence(capsys, top, "--dataset", EVALUATION, "--scale=1e-9")
    assert "preprocessing is stored in the file. Leave out --scale" in said


def undescribed(target: Path) -> bytes:
    """The compiled bytes alone, as files of other compilers are."""
    return read_artifact(Session().open(target)[0], target)[0]


def test_mean_and_scale_are_not_for_inputs_of_bytes(
    brightness: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A compiled file that normalizes by itself is compared with the float network under the same options."""
    chips = Registry().names("tpuc.chips")
    if not chips:
        pytest.skip("no chip is installed")
    options = ["--mean=10", "--scale=0.5", "--pixel-format=gray"]
    target = tmp_path / f"b{Registry().get('tpuc.chips', chips[0]).description.suffix}"
    calibration = ["--quantize=int8", "--dataset", str(pictures), "--fuse-preprocess", *options]
    assert main(["compile", str(brightness), "--chip", chips[0], *calibration, "-o", str(target)]) == 0
    remarks = {
        f"{target}: preprocessing is stored in the file; the options are ignored": target.read_bytes(),
        "takes image bytes, which the network normalizes itself: mean and scale are ignored": undescribed(target),
    }
    for remark, content in remarks.items():
        target.write_bytes(content)
        capsys.readouterr()
        arguments = [str(brightness), str(target), "--dataset", str(pictures), "--metric=auc", *options, "--json"]
        assert main(["eval", *arguments]) == 0
        out, err = capsys.readouterr()
        assert remark in err
        assert [one["figures"] for one in json.loads(out)["models"]] == [{"AUC": 7 / 9}] * 2


# Workers


def test_figures_do_not_depend_on_the_workers(digits_onnx: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts: list[str] = []
    for workers in ("1", "4"):
        capsys.readouterr()
        assert main(["eval", str(digits_onnx), "--dataset", EVALUATION, "--workers", workers, "--json"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]


def test_a_worker_that_dies_loses_nothing(digits_onnx: Path, tmp_path: Path) -> None:
    def run(samples: Any, workers: int) -> Evaluation:
        with open_pool(workers) as pool:
            return evaluate(
                [RunnableFile(digits_onnx, Registry())],
                samples,
                TopK(),
                [Scores()],
                pool,
                dataset="digits",
                strict=True,
                progress=lambda items, *_: items,
                remark=print,
            )

    samples = Arrays().open(DataRequest(Path(EVALUATION), count=40), print)
    dying = DyingSamples(samples, 20, tmp_path / "died")
    assert run(dying, 2) == run(samples, 1)
    assert dying.mark.exists()


@pytest.mark.filterwarnings("default")  # dask's own
def test_a_cluster_gives_the_same_figures(digits_onnx: Path, capsys: pytest.CaptureFixture[str]) -> None:
    distributed: Any = pytest.importorskip("distributed")
    here = eval_json(capsys, str(digits_onnx), "--dataset", EVALUATION, "--count=24")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "processes": True}
    with distributed.LocalCluster(**options) as cluster:
        address = cluster.scheduler_address
        there = eval_json(capsys, str(digits_onnx), "--dataset", EVALUATION, "--count=24", f"--cluster={address}")
    assert there == here


# Images


@pytest.fixture
def brightness(tmp_path: Path) -> Path:
    """A network that says `dark` or `bright`: the mean of all pixels against 100."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, (1, 2), [-1.0, 1.0])
    bias = helper.make_tensor("b", TensorProto.FLOAT, (2,), [100.0, -100.0])
    nodes = [
        helper.make_node("GlobalAveragePool", ["image"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w", "b"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "brightness",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 1, 8, 8))],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, (1, 2))],
        [weight, bias],
    )
    path = tmp_path / "brightness.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]).SerializeToString())
    onnx.checker.check_model(str(path))
    return path


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Folders `a` (dark) and `b` (bright) with three images each; one dark one lies in `b`."""
    for name, value in (("a/1", 0), ("a/2", 50), ("a/3", 90), ("b/1", 20), ("b/2", 150), ("b/3", 250)):
        path = tmp_path / "pictures" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), value).save(path)
    return tmp_path / "pictures"


def test_a_folder_of_images(brightness: Path, pictures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = eval_json(capsys, str(brightness), AS_THEY_ARE, "--dataset", str(pictures))
    assert result["models"][0]["figures"] == {"top-1": 5 / 6}  # of two classes top-5 says nothing
    # scores 2 * (mean - 100): the bright ones 20, 150, 250 against 0, 50, 90; seven of nine pairs are in order
    result = eval_json(capsys, str(brightness), AS_THEY_ARE, "--dataset", str(pictures), "--metric=auc")
    assert result["models"][0]["figures"] == {"AUC": 7 / 9}


def test_unreadable_images_are_named_and_counted(
    brightness: Path, pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = pictures / "b" / "1.png"
    bad.write_bytes(b"no image at all")
    capsys.readouterr()
    assert main(["eval", str(brightness), AS_THEY_ARE, "--dataset", str(pictures), "--json"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert (result["samples"], result["models"][0]["figures"]) == (5, {"top-1": 1.0})
    assert [one["sample"] for one in result["skipped"]] == [str(bad)]
    assert f"skipped: {bad}: not a readable image" in err
    assert "1 of 6 samples skipped; --strict makes this an error" in err
    said = sentence(capsys, str(brightness), AS_THEY_ARE, "--dataset", str(pictures), "--strict", code=1)
    assert said.startswith(f"tpuc: {bad}: not a readable image")
    assert len(said.splitlines()) == 1


def test_nothing_to_evaluate_is_one_sentence(
    brightness: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    said = sentence(capsys, str(brightness), AS_THEY_ARE, "--dataset", str(empty), code=1)
    assert (
        said
        == f"tpuc: {empty}: contains no images. Give a folder per class, or --label-file with lines 'FILE INDEX'.\n"
    )
    for path in pictures.rglob("*.png"):
        path.write_bytes(b"")
    said = sentence(capsys, str(brightness), AS_THEY_ARE, "--dataset", str(pictures), code=1).splitlines()[-1]
    assert said.startswith(f"tpuc: {pictures}: none of 6 samples is usable. {pictures / 'a' / '1.png'}: not a readable")


# Refusals


@each(
    ("arguments", "said"),
    [
        (["--dataset", EVALUATION], "no network or no data; give both"),
        (["X", "--dataset", EVALUATION, "--metric=auc", "--postprocess-type=topx"], "are the same option"),
        (["X", "--dataset", EVALUATION, "--metric=top-l"], "no metric named 'top-l'. Did you mean 'top-k'?"),
        (["X", "--dataset", EVALUATION, "--metric=top-k{n=3}"], "metric 'top-k' has no option 'n'"),
        (["X", "--dataset", EVALUATION, "--dataset-type=kitti"], "no dataset type named 'kitti'"),
        (["X", "--dataset", EVALUATION, "--postprocess=yolo"], "no postprocess named 'yolo'"),
        (["X", "--dataset", EVALUATION, "--workers=2", "--cluster=a"], "--workers and --cluster exclude each other"),
        (["X", "--dataset", EVALUATION, "--metric=auc"], "10 scores per sample, but metric 'auc' needs one"),
        (["X", "--dataset", EVALUATION, "--label-offset=1"], "a label is 10, but the network has 10 classes"),
    ],
)
def test_refusals(arguments: list[str], said: str, digits_onnx: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in sentence(capsys, *(str(digits_onnx) if one == "X" else one for one in arguments))


def test_arrays_with_classes_from_1(digits_onnx: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with np.load(EVALUATION) as arrays:
        np.savez(tmp_path / "ones.npz", x=arrays["x"], y=arrays["y"] + 1)
    said = sentence(capsys, str(digits_onnx), "--dataset", str(tmp_path / "ones.npz"), "--count=1")
    assert said.endswith(
        "ones.npz: its largest class index is 10, but the network has 10 classes, counted from 0; add --label-offset "
        "-1.\n"
    )


def test_a_network_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere.onnx: no such file" in sentence(capsys, "nowhere.onnx", "--dataset", EVALUATION, code=1)


@pytest.mark.chip("bm1684x")
def test_calibration_samples_are_left_out(
    digits_onnx: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calibrated on the first 30 of the labeled samples: 24 of them, of which 6 were held out, are left out."""
    monkeypatch.chdir(tmp_path)
    words = ["--chip=bm1684x", "--quantize=int8", f"--dataset={EVALUATION}", "--input-num=30", "--work-dir=work"]
    assert main(["compile", str(digits_onnx), *words, "-o", "digits.bmodel"]) == 0

    def last_line(*arguments: str) -> str:
        capsys.readouterr()
        assert main(["eval", *arguments, EVALUATION]) == 0
        return capsys.readouterr().out.splitlines()[-1]

    assert last_line("digits.bmodel") == (
        f"176 samples of {EVALUATION} (24 more were used for calibration and left out)"
    )
    assert last_line(str(digits_onnx)) == f"200 samples of {EVALUATION}"
    with np.load(EVALUATION) as data:
        np.savez("seen.npz", x=data["x"][:2], y=data["y"][:2])
        np.savez("unseen.npz", x=data["x"][50:52])
    capsys.readouterr()
    assert main(["eval", "digits.bmodel", "seen.npz"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "2 samples of seen.npz, all used for calibration: expect lower accuracy on other data"
    )
    modules = next(Path("work").glob("*_tpu.mlir"))
    exact = Path("work") / "digits.mlir"
    remark = "the network was calibrated on all samples of the input: expect larger errors on other data"
    for data, told in (("seen.npz", True), ("unseen.npz", False)):
        assert main(["compare", str(exact), str(modules), "--input", data]) == 0
        assert (remark in capsys.readouterr().err) == told
        page = ["--f32-mlir", str(exact), "--quant-mlir", str(modules), "--input", data, "-o", "page.html"]
        assert main(["visual", *page]) == 0
        assert (remark in capsys.readouterr().err) == (remark in Path("page.html").read_text("utf-8")) == told


def color_classifier(path: Path) -> None:
    """Three classes, the mean of a color each, for pixels from 0 to 1; without colors it is the first one."""
    nodes = [
        helper.make_node("Conv", ["image", "w", "b"], ["scores"]),
        helper.make_node("GlobalAveragePool", ["scores"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
    ]
    arrays = {
        "w": np.diag(np.array([10, 12, 11], np.float32)).reshape(3, 3, 1, 1),
        "b": np.array([1, 0, 0], np.float32),
    }
    graph = helper.make_graph(
        nodes,
        "colors",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 3, 8, 8))],
        [helper.make_tensor_value_info("flat", TensorProto.FLOAT, (1, 3))],
        [onnx.numpy_helper.from_array(value, name) for name, value in arrays.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def test_a_network_that_is_mostly_wrong_is_told_the_preset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(1)
    labels = random.permutation(np.arange(30) % 3)
    pixels = random.integers(0, 60, (30, 8, 8, 3)) + 180 * np.eye(3, dtype=np.int64)[labels][:, None, None]
    color_classifier(tmp_path / "net.onnx")
    for place, one in enumerate(pixels.astype(np.uint8)):
        Image.fromarray(one).save(tmp_path / f"{place:02}.png")
    (tmp_path / "labels.txt").write_text("".join(f"{place:02}.png {label}\n" for place, label in enumerate(labels)))
    arguments = [str(tmp_path / "net.onnx"), str(tmp_path), "--label-file", str(tmp_path / "labels.txt")]
    seen = dict[str, str]()
    for name, options in (("yolo", ["--preprocess=yolo"]), ("dark", ["--pixel-format=rgb", "--scale=0.00001538"])):
        assert main(["eval", *arguments, *options]) == 0
        seen[name] = capsys.readouterr().err
    assert "preprocess" not in seen["yolo"]
    assert re.search(
        r"net\.onnx: 10 of 30 predictions are right; with preset [a-z, -]*yolo[a-z, -]* 30 of 30 samples are, "
        r"instead of 10, and 30 labels are more probable: check the preprocessing \(--preprocess\)",
        seen["dark"],
    )
