"""Archives that others made run nothing unasked, and where they are trusted they reach nothing and end."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tpuc.api import TpucError, UsageError
from tpuc_c import confinement, model
from tpuc_c.chip import CHIP
from tpuc_c.storage import packed, unpacked
from tpuc_driver.cli import main
from tpuc_driver.session import Session
from tpuc_driver.written import is_written_here, remember_written, state_folder

from tests.chips.c.programs import DIGITS, FLOAT, compile_digits, needs_compiler, needs_lowerings
from tests.fuzz import hostile

pytestmark = [needs_lowerings, needs_compiler]
SECONDS = 8
GIGABYTE = 1 << 30


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    path = tmp_path_factory.mktemp("sound") / "net.tar"
    compile_digits(path, mode=FLOAT)
    return unpacked(path.read_bytes(), "net.tar")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "FOREIGN_SECONDS", 1)
    monkeypatch.setattr(confinement, "GRACE_S", 1)


def changed(files: dict[str, bytes]) -> bytes:
    """The same network by another installation."""
    return packed({**files, "main.c": files["main.c"] + b"/* */\n"})


def sample(folder: Path) -> Path:
    with np.load(DIGITS / "digits_eval.npz") as data:
        np.savez(folder / "x.npz", image=data["x"][:1].astype(np.float32).reshape(1, 1, 8, 8))
    return folder / "x.npz"


def test_code_of_others_runs_only_where_the_user_says_so(
    sound: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = sample(tmp_path)
    Path("net.tar").write_bytes(changed(sound))
    Path("net").mkdir()
    for name, content in unpacked(changed(sound), "net.tar").items():
        (Path("net") / name).parent.mkdir(exist_ok=True)
        (Path("net") / name).write_bytes(content)
    for name in ("net.tar", "net"):
        assert main(["run", name, str(given)]) == 2
        said = capsys.readouterr().err
        assert f"{name}: this file comes from another installation, and running it executes its C code on this" in said
        assert "add --trust if you trust its origin." in said
        (trusted,) = Session(trust=True).run(Path(name), [given]).values()
        (own,) = Session().run(DIGITS / "digits.onnx", [given]).values()
        np.testing.assert_allclose(trusted.reshape(-1), own.reshape(-1), rtol=1e-4, atol=1e-4)
    assert main(["run", "net.tar", str(given), "--trust"]) == 0
    eval_on = ["--dataset", "digits.npz"]
    np.savez("digits.npz", x=np.load(given)["image"], y=np.zeros(1, np.int64))
    assert main(["eval", "net.tar", *eval_on]) != 0
    assert "add --trust" in capsys.readouterr().err
    Path("tpuc.toml").write_text("[run]\ntrust = true\n")
    assert main(["run", "net.tar", str(given)]) == 2
    assert (
        "--trust cannot be a default: it is given on the command line, for one file at a time"
        in capsys.readouterr().err
    )


def test_looking_at_a_file_asks_for_no_trust(sound: dict[str, bytes]) -> None:
    loaded = CHIP.load(changed(sound))
    assert "int32_t" in loaded.disassemble()
    assert loaded.memory["file"]


def test_what_this_installation_wrote_is_known_in_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"bytes of a file"
    remember_written(data)
    monkeypatch.setattr("tpuc_driver.written._OWN", set[str]())
    assert is_written_here(data)
    assert not is_written_here(b"other bytes")
    folder = state_folder()
    assert folder is not None
    folder.chmod(0o777)
    assert not is_written_here(data)  # anybody may have noted it
    folder.chmod(0o700)


def run_on_zeros(data: bytes) -> None:
    loaded = CHIP.load(data)
    loaded.is_trusted = True
    loaded.run({info.name: np.zeros(info.shape, np.float32) for info in loaded.inputs})


def test_every_word_of_an_archive_is_checked(sound: dict[str, bytes]) -> None:
    for old, new, sentence in (
        (b'"identifier": "digits"', b'"identifier": "-fplugin=./x"', "has a network name that is not a C identifier"),
        (b'"main.c"', b'"../main.c"', "lists a file that no network in C has"),
        (b'"storage": "f32"', b'"storage": "f64"', "is damaged"),
        (b'"workspace_bytes": ', b'"workspace_bytes": 9999999', "foreign code may use 900; compile the network here"),
    ):
        meta = sound["metadata.json"].replace(old, new, 1)
        assert meta != sound["metadata.json"], old
        with pytest.raises(TpucError, match=sentence):
            run_on_zeros(packed({**sound, "metadata.json": meta}))
    for name in ("../x", "a/b", "-o", "zephyr/../x", "zephyr/zephyr/x", "zephyr/", "src/../x", "examples/a/b/c"):
        with pytest.raises(TpucError, match="is not a regular file; compile it again"):
            CHIP.load(hostile.made({**sound, name: b""}))
    with pytest.raises(TpucError, match=r"or 'main\.c' twice; compile it again"):
        CHIP.load(packed({"main.c": b""})[:512] + packed(sound))


def test_a_folder_leads_nowhere_else(sound: dict[str, bytes], tmp_path: Path) -> None:
    """Neither by a link in place of a file, nor by one in place of the folder with a file."""
    for name, content in sound.items():
        (tmp_path / "net" / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / "net" / name).write_bytes(content)
    assert CHIP.archive(tmp_path / "net") == packed(sound)
    (tmp_path / "net" / "zephyr").rename(tmp_path / "elsewhere")
    (tmp_path / "net" / "zephyr").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TpucError, match=r"zephyr/module\.yml is missing; compile it again"):
        CHIP.archive(tmp_path / "net")


def strike(files: dict[str, bytes], seed: int, mark: Path) -> Iterator[str]:
    """What one archive does that it should not."""
    random, start = np.random.default_rng(seed), time.monotonic()
    kind = hostile.KINDS[seed % len(hostile.KINDS)]
    data = hostile.code(dict(files), random, str(mark)) if kind is hostile.code else kind(dict(files), random)
    try:
        loaded = CHIP.load(data, "net.tar")
        assert isinstance(loaded, model.CompiledProgram)
        if not loaded.is_own:
            zeros = {info.name: np.zeros(info.shape, np.float32) for info in loaded.inputs if np.prod(info.shape) < 1e6}
            with pytest.raises(UsageError, match="add --trust"):
                loaded.run(zeros)
            loaded.is_trusted = len(zeros) == len(loaded.inputs)
            loaded.run(zeros)
    except TpucError as error:
        if not error.sentence().isprintable() or len(error.sentence()) > 2000:
            yield f"{kind.__name__} {seed}: {error.sentence()!r}"
    except Exception as error:  # noqa: BLE001  # the list names every one
        yield f"{kind.__name__} {seed}: {type(error).__name__}: {error}"
    if mark.exists():
        mark.unlink()
        yield f"{kind.__name__} {seed}: wrote elsewhere"
    if time.monotonic() - start > SECONDS:
        yield f"{kind.__name__} {seed}: took {time.monotonic() - start:.0f} s"


def largest_child() -> int:
    """Bytes of the largest process so far that this one has started and waited for, in other tests too."""
    return 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def strikes(files: dict[str, bytes], seeds: range, folder: Path) -> list[str]:
    before = largest_child()
    found = [line for seed in seeds for line in strike(files, seed, folder / "PWNED")]
    if (peak := largest_child()) > max(before, GIGABYTE):
        found.append(f"a process took {peak >> 20} MB")
    return found


@pytest.mark.usefixtures("impatient")
def test_hostile_archives_end_in_a_sentence(sound: dict[str, bytes], tmp_path: Path) -> None:
    assert strikes(sound, range(18), tmp_path) == []


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_five_hundred_hostile_archives(sound: dict[str, bytes], tmp_path: Path) -> None:
    assert strikes(sound, range(1000, 1500), tmp_path) == []
