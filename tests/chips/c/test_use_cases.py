"""The use cases of TVM's unified static memory planning: its options, names in the source, and applications."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc_driver.cli import main
from tpuc_driver.session import Session

from tests.chips.c.programs import (
    COMPILERS,
    DIGITS,
    FLOAT,
    SANITIZED,
    build,
    compile_digits,
    macros,
    needs_compiler,
    needs_lowerings,
    quantized,
    run,
)
from tests.families import each

pytestmark = [needs_lowerings, needs_compiler]
VARIANTS = [(name, flags) for name in COMPILERS for flags in (("-O3",), SANITIZED)]


def variants(quick: int) -> list[Any]:
    """Compilers and their options, one of which is quick; optimized code is built in `test_pipeline` too."""
    chosen = VARIANTS[quick]
    return [pytest.param(one, marks=() if one == chosen else pytest.mark.slow, id=str(one)) for one in VARIANTS]


PINNED = (
    *("--executor=aot", "--target=accel,c", "--usmp-workspace-pools=dtcm,sram", "--usmp-parameter-pools=itcm,flash"),
    *("--usmp-workspace-pool-dtcm=", "target=c;size=1000", "--usmp-workspace-pool-sram=", "target=c,accel"),
    *("--usmp-parameter-pool-itcm=", "target=c;size=5000", "--usmp-parameter-pool-flash=", "target=c,accel"),
)
FILL = """
static int read_all(void* data, size_t size) { return fread(data, 1, size, stdin) == size; }
static int write_all(const void* data, size_t size) { return fwrite(data, 1, size, stdout) == size; }
"""


def sample() -> bytes:
    with np.load(DIGITS / "digits_eval.npz") as data:
        return data["x"][3].astype(np.float32).tobytes()


def expected(folder: Path) -> bytes:
    """The output of the network by the example in its folder."""
    names = sorted(path.name for path in folder.glob("*_lib0.c"))
    model = names[0].removesuffix("_lib0.c")
    return run(build(folder, (names[0], f"{model}_operators.c", "main.c"), "-O0", name="cc"), sample())


def compiled(folder: Path, model: str, *options: str, mode: tuple[str, ...] | None = None) -> bytes:
    """Compile the digits under a name, without a word about the chip but the target; returns what it should give."""
    shutil.copy(DIGITS / "digits.onnx", folder / f"{model}.onnx")
    given = [*options, *(mode or quantized())]
    assert main(["compile", str(folder / f"{model}.onnx"), "-o", str(folder / model), *given]) == 0
    return expected(folder / model)


def application(folder: Path, text: str, models: tuple[str, ...], variant: tuple[str, tuple[str, ...]]) -> Path:
    (folder / "application.c").write_text(text)
    name, flags = variant
    places = [f"-I{folder / model}" for model in models]
    sources = [f"{model}/{model}_{part}.c" for model in models for part in ("lib0", "operators")]
    return build(folder, ["application.c", *sources], *places, *flags, name=name)


@pytest.mark.parametrize("variant", variants(-1))
def test_u1_the_most_simple_use_case(variant: tuple[str, tuple[str, ...]], tmp_path: Path) -> None:
    wanted = compiled(tmp_path, "my_model", "--executor=aot", "--output-format=mlf", "--target=c")
    text = f"""
#include <stdio.h>
#include "my_model_metadata.h"
{FILL}
extern const TVMModel my_model;
int main(void) {{
  static uint8_t my_data[256], output_space[40];
  if (!read_all(my_data, sizeof my_data)) return 1;
  TVMInputs_my_model inputs = {{my_data}};
  TVMOutputs_my_model outputs = {{output_space}};
  if (TVMExecute(&my_model, &inputs, &outputs, NULL)) return 2;
  return !write_all(output_space, sizeof output_space);
}}
"""
    assert run(application(tmp_path, text, ("my_model",), variant), sample()) == wanted


@pytest.mark.parametrize("variant", variants(1))
def test_u2_two_networks_share_a_workspace(variant: tuple[str, tuple[str, ...]], tmp_path: Path) -> None:
    options = ("--executor=aot", "--output-format=mlf", "--target=accel,c", "--usmp-workspace-pools=sram")
    options += ("--usmp-workspace-pool-sram=", "target=c:rw,accel:rw")
    modes = {"my_model_1": None, "my_model_2": FLOAT}
    wanted = [compiled(tmp_path, name, *options, mode=mode) for name, mode in modes.items()]
    sizes = [size for name in modes for key, size in macros(tmp_path / name).items() if "SRAM" in key]
    assert 0 < sizes[0] < sizes[1]
    text = f"""
#include <stdio.h>
#include "my_model_1_metadata.h"
#include "my_model_2_metadata.h"
{FILL}
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define COMMON LARGER(TVM_MY_MODEL_1_SRAM_WORKSPACE_BUFFER_SIZE, TVM_MY_MODEL_2_SRAM_WORKSPACE_BUFFER_SIZE)
static TVM_ALIGNED(16) uint8_t workspace_buffer[COMMON];
extern const TVMModel my_model_1;
extern const TVMModel my_model_2;
int main(void) {{
  static TVM_ALIGNED(16) uint8_t my_data[256], output_space_1[40], output_space_2[40];
  if (!read_all(my_data, sizeof my_data)) return 1;
  TVMContext context = {{NULL, NULL, NULL}};
  TVMInputs_my_model_1 inputs_1 = {{my_data}};
  TVMOutputs_my_model_1 outputs_1 = {{output_space_1}};
  TVMWorkspaces_my_model_1 workspaces1 = {{.sram = workspace_buffer}};
  TVMSetWorkspaces(&context, &workspaces1);
  if (TVMExecute(&my_model_1, &inputs_1, &outputs_1, &context)) return 2;
  TVMInputs_my_model_2 inputs_2 = {{my_data}};
  TVMOutputs_my_model_2 outputs_2 = {{output_space_2}};
  TVMWorkspaces_my_model_2 workspaces2 = {{.sram = workspace_buffer}};
  TVMSetWorkspaces(&context, &workspaces2);
  if (TVMExecute(&my_model_2, &inputs_2, &outputs_2, &context)) return 3;
  return !write_all(output_space_1, sizeof output_space_1) || !write_all(output_space_2, sizeof output_space_2);
}}
"""
    assert run(application(tmp_path, text, ("my_model_1", "my_model_2"), variant), sample()) == b"".join(wanted)


GUARDED = """
#define GUARD 64
typedef struct {
  uint8_t before[GUARD];
  uint8_t memory[%s];
  uint8_t after[GUARD];
} %s_t;
static TVM_ALIGNED(16) %s_t %s;
"""


@each("variant", variants(-1))
def test_u3_pools_in_several_memories(variant: tuple[str, tuple[str, ...]], tmp_path: Path) -> None:
    """Constants are copied to where the application wants them; bytes around every workspace stay as they were."""
    wanted = compiled(tmp_path, "my_model", *PINNED)
    sizes = macros(tmp_path / "my_model")
    assert 0 < sizes["TVM_MY_MODEL_DTCM_WORKSPACE_BUFFER_SIZE"] <= 1000
    assert 0 < sizes["TVM_MY_MODEL_ITCM_PARAMETER_BUFFER_SIZE"] <= 5000
    guarded = "".join(
        GUARDED % (f"TVM_MY_MODEL_{name.upper()}_WORKSPACE_BUFFER_SIZE", name, name, name) for name in ("dtcm", "sram")
    ).replace("#define GUARD 64", "", 1)
    text = f"""
#include <stdio.h>
#include <string.h>
#include "my_model_metadata.h"
#define GUARD 64
{guarded.replace("#define GUARD 64", "")}
{FILL}
extern const TVMModel my_model;
static TVM_SECTION("FLASH") TVM_ALIGNED(16) uint8_t my_model_params_2[TVM_MY_MODEL_FLASH_PARAMETER_BUFFER_SIZE];
static TVM_SECTION("ITCM") TVM_ALIGNED(16) uint8_t my_model_params_1[TVM_MY_MODEL_ITCM_PARAMETER_BUFFER_SIZE];
static int is_whole(const uint8_t* guard) {{
  for (int i = 0; i < GUARD; ++i) if (guard[i] != 0xa5) return 0;
  return 1;
}}
int main(void) {{
  static TVM_ALIGNED(16) uint8_t input[256], output[40];
  if (!read_all(input, sizeof input)) return 1;
  memset(&dtcm, 0xa5, sizeof dtcm);
  memset(&sram, 0xa5, sizeof sram);
  memcpy(my_model_params_1, my_model_itcm_parameter_data, sizeof my_model_params_1);
  memcpy(my_model_params_2, my_model_flash_parameter_data, sizeof my_model_params_2);
  TVMContext context = {{NULL, NULL, NULL}};
  TVMInputs_my_model inputs = {{input}};
  TVMOutputs_my_model outputs = {{output}};
  TVMWorkspaces_my_model workspaces = {{.dtcm = dtcm.memory, .sram = sram.memory}};
  TVMParameters_my_model parameters = {{.flash = my_model_params_2, .itcm = my_model_params_1}};
  TVMSetWorkspaces(&context, &workspaces);
  TVMSetParameters(&context, &parameters);
  if (TVMExecute(&my_model, &inputs, &outputs, &context)) return 2;
  if (!is_whole(dtcm.before) || !is_whole(dtcm.after) || !is_whole(sram.before) || !is_whole(sram.after)) return 3;
  return !write_all(output, sizeof output);
}}
"""
    assert run(application(tmp_path, text, ("my_model",), variant), sample()) == wanted


def test_a_workspace_that_ends_too_early_is_found(tmp_path: Path) -> None:
    """The check above is able to fail: what is written behind the beginning of the last value is found. Scratch memory
    may lie behind it, some of which not every processor's loops write.
    """
    wanted = compiled(tmp_path, "my_model", "--target=c", "--usmp-workspace-pools=sram")
    code = (tmp_path / "my_model" / "my_model_lib0.c").read_text()
    last = max(map(int, re.findall(r"sram_pool \+ ([0-9]+)\) /\* [^/]+ \*/", code)))
    assert 0 < last < macros(tmp_path / "my_model")["TVM_MY_MODEL_SRAM_WORKSPACE_BUFFER_SIZE"]
    main_file = tmp_path / "my_model" / "main.c"
    macro = "TVM_MY_MODEL_SRAM_WORKSPACE_BUFFER_SIZE"
    short = main_file.read_text().replace(f"[{macro} > 0 ? {macro} : 1]", f"[{last} + 16]")
    main_file.write_text(short)
    sources = ("my_model_lib0.c", "my_model_operators.c", "main.c")
    program = build(tmp_path / "my_model", sources, *SANITIZED, name="cc")
    done = subprocess.run([program], input=sample(), capture_output=True, check=False)
    assert done.returncode != 0 or done.stdout != wanted
    assert b"buffer-overflow" in done.stderr


def test_pools_with_sections_are_held_by_the_generated_source(tmp_path: Path) -> None:
    options = ["--target=c", "--usmp-workspace-pools=dtcm,sram", "--usmp-parameter-pools=flash"]
    options += ["--usmp-workspace-pool-dtcm=size=2000;section=.dtcm_data", "--usmp-parameter-pool-flash=section=.flash"]
    wanted = compiled(tmp_path, "my_model", "--target=c")
    compile_digits(tmp_path / "net", *options)
    header = (tmp_path / "net" / "digits_metadata.h").read_text()
    assert "uint8_t* sram;\n} TVMWorkspaces_digits;" in header
    assert "TVMParameters" not in header
    sources = ("digits_lib0.c", "digits_operators.c", "main.c")
    program = build(tmp_path / "net", sources, "-O1", "-Wl,-Map=program.map", name="cc")
    assert run(program, sample()) == wanted
    sections = (tmp_path / "net" / "program.map").read_text()
    assert ".dtcm_data" in sections
    assert ".flash" in sections


@each(
    ("options", "sentence"),
    [
        (("--usmp-workspace-pool-sram=size=1000",), "fits none of its pools, 'sram' of 1000 bytes; enlarge 'sram'"),
        (("--usmp-workspace-pool-sram=target=accel:rw",), "but no workspace pool admits it; add the target to a pool"),
        (("--usmp-workspace-pool-sram=target=gpu",), "there is no target 'gpu'; --target names accel, c."),
        (("--usmp-workspace-pool-dtcm=size=1",), "describes a pool that --usmp-workspace-pools does not name"),
    ],
)
def test_what_cannot_be_planned_is_one_sentence(
    options: tuple[str, ...], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(DIGITS / "digits.onnx"), "--target=accel,c", "--usmp-workspace-pools=sram", "--quantize", "f32"]
    assert main(["compile", *arguments, "-o", str(tmp_path / "net"), *options]) != 0
    assert sentence in capsys.readouterr().err


def test_the_simulator_runs_pinned_pools(tmp_path: Path) -> None:
    wanted = compiled(tmp_path, "my_model", *PINNED)
    x = np.frombuffer(sample(), np.float32).reshape(1, 1, 8, 8)
    np.savez(tmp_path / "x.npz", image=x)
    (result,) = Session().run(tmp_path / "my_model", (tmp_path / "x.npz",)).values()
    assert result.tobytes() == wanted
