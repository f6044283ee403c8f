"""The C source of a planned program compiles, and its offsets keep every buffer whole while the calls run."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tpuc.api import PoolInfo
from tpuc_plan.planners.greedy import GREEDY
from tpuc_plan.usmp.c_source import c_files, identifier
from tpuc_plan.usmp.planner import Call, PlacedProgram, Program, ProgramTensor, plan_program
from tpuc_plan.usmp.pools import Pools

COMPILER = shutil.which("gcc") or shutil.which("cc")
FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror"]
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler (gcc or cc)")

SIZES = {"x": 16, "y": 24, "t1": 600, "t2": 300, "t3": 500, "s2": 200}
WEIGHTS = {"w1": bytes([7]) * 300, "w2": bytes([9]) * 90}
CALLS = (
    Call("conv/1", ("x", "w1"), ("t1",)),
    Call("conv 2", ("t1", "w2"), ("t2",), ("s2",)),
    Call("pool", ("t1",), ("t3",), target="accel"),
    Call("add", ("t2", "t3"), ("y",)),
)
PINNED = Pools((PoolInfo("dtcm", 1000), PoolInfo("sram")), (PoolInfo("itcm", 350), PoolInfo("flash")))


def program(name: str = "my-model", **sizes: int | None) -> Program:
    tensors = {key: ProgramTensor(key, size) for key, size in {**SIZES, **sizes}.items()}
    tensors |= {key: ProgramTensor(key, len(data), data) for key, data in WEIGHTS.items()}
    return Program(name, ("x",), ("y",), tensors, CALLS)


def write(folder: Path, *placed: PlacedProgram) -> None:
    for one in placed:
        for name, text in c_files(one).items():
            (folder / name).write_text(text)


def macros(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"#define (TVM_\w+_BUFFER_SIZE) (\d+)", text)}


def build(folder: Path, *sources: str) -> Path:
    assert COMPILER is not None
    target = folder / "application"
    subprocess.run([COMPILER, *FLAGS, "-o", target, *sources], cwd=folder, check=True, timeout=60)
    return target


def operators(placed: PlacedProgram) -> str:
    """Operators that fill what they write with a byte of their own, and check every byte that they read."""
    tags = {"x": 1, "w1": 7, "w2": 9} | {name: 20 + n for n, call in enumerate(CALLS) for name in call.outputs}
    model = identifier(placed.program.name)
    lines = ["#include <string.h>", "#include <stdint.h>"]
    lines.append(
        "static int whole(const uint8_t* p, size_t n, int tag) { while (n--) if (p[n] != tag) return 0; return 1; }"
    )
    for call in CALLS:
        names = [identifier(name) for name in call.tensors]
        lines.append(f"int32_t {model}_{identifier(call.name)}({', '.join(f'void* {n}' for n in names)}, void* h) {{")
        lines.append("  (void)h;")
        sizes = {name: placed.program.tensor(name).size_bytes for name in call.tensors}
        lines += [f"  if (!whole({name}, {sizes[name]}, {tags[name]})) return 1;" for name in call.inputs]
        for name in (*call.outputs, *call.scratch):
            lines.append(f"  memset({name}, {tags.get(name, 99)}, {sizes[name]});")
        lines += ["  return 0;", "}"]
    return "\n".join(lines) + "\n"


def test_macros_say_what_the_planner_needs() -> None:
    placed = plan_program(program(), PINNED, GREEDY)
    header = c_files(placed)["my_model_metadata.h"]
    # Live at once: t1 t2 s2 (1100) in call 2, t1 t2 t3 (1400) in call 3, t2 t3 (800) in call 4; constants 300 and 90.
    assert macros(header) == {
        "TVM_MY_MODEL_DTCM_WORKSPACE_BUFFER_SIZE": 900,
        "TVM_MY_MODEL_SRAM_WORKSPACE_BUFFER_SIZE": 500,
        "TVM_MY_MODEL_ITCM_PARAMETER_BUFFER_SIZE": 300,
        "TVM_MY_MODEL_FLASH_PARAMETER_BUFFER_SIZE": 90,
    }
    assert "uint8_t* dtcm;\n  uint8_t* sram;\n} TVMWorkspaces_my_model;" in header
    assert "const uint8_t* itcm;\n  const uint8_t* flash;\n} TVMParameters_my_model;" in header
    assert "uint8_t* x;\n} TVMInputs_my_model;" in header


@needs_compiler
def test_the_default_holds_its_own_memory(tmp_path: Path) -> None:
    placed = plan_program(program(), Pools(), GREEDY)
    write(tmp_path, placed)
    (tmp_path / "main.c").write_text(
        operators(placed)
        + """
#include "my_model_metadata.h"
int main(void) {
  uint8_t in[16], out[24];
  memset(in, 1, sizeof in);
  TVMInputs_my_model inputs = {in};
  TVMOutputs_my_model outputs = {out};
  return TVMExecute(&my_model, &inputs, &outputs, NULL) || !whole(out, sizeof out, 23);
}
"""
    )
    subprocess.run([build(tmp_path, "main.c", "my_model_lib0.c")], check=True, timeout=60)


@needs_compiler
def test_buffers_are_pinned_to_the_pools_of_the_application(tmp_path: Path) -> None:
    placed = plan_program(program(), PINNED, GREEDY)
    write(tmp_path, placed)
    (tmp_path / "main.c").write_text(
        operators(placed)
        + """
#include "my_model_metadata.h"
static uint8_t fast[TVM_MY_MODEL_DTCM_WORKSPACE_BUFFER_SIZE], slow[TVM_MY_MODEL_SRAM_WORKSPACE_BUFFER_SIZE];
int main(void) {
  uint8_t in[16], out[24];
  memset(in, 1, sizeof in);
  TVMContext context = {NULL, NULL, NULL};
  TVMInputs_my_model inputs = {in};
  TVMOutputs_my_model outputs = {out};
  TVMWorkspaces_my_model workspaces = {.dtcm = fast, .sram = slow};
  TVMParameters_my_model parameters = {.itcm = my_model_itcm_parameter_data, .flash = my_model_flash_parameter_data};
  TVMSetWorkspaces(&context, &workspaces);
  TVMSetParameters(&context, &parameters);
  return TVMExecute(&my_model, &inputs, &outputs, &context) || !whole(out, sizeof out, 23);
}
"""
    )
    subprocess.run([build(tmp_path, "main.c", "my_model_lib0.c")], check=True, timeout=60)


@needs_compiler
def test_two_models_share_one_workspace(tmp_path: Path) -> None:
    pools = Pools((PoolInfo("sram"),), PINNED.parameter)
    one, two = plan_program(program("one"), pools, GREEDY), plan_program(program("two", t1=2000), pools, GREEDY)
    write(tmp_path, one, two)
    (tmp_path / "main.c").write_text(
        operators(one)
        + operators(two).split("\n", 3)[3]
        + """
#include "one_metadata.h"
#include "two_metadata.h"
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
static uint8_t sram[LARGER(TVM_ONE_SRAM_WORKSPACE_BUFFER_SIZE, TVM_TWO_SRAM_WORKSPACE_BUFFER_SIZE)];
int main(void) {
  uint8_t in[16], out[24];
  memset(in, 1, sizeof in);
  TVMContext context = {NULL, NULL, NULL};
  TVMWorkspaces_one first = {sram};
  TVMWorkspaces_two second = {sram};
  TVMParameters_one constants = {one_itcm_parameter_data, one_flash_parameter_data};
  TVMParameters_two others = {two_itcm_parameter_data, two_flash_parameter_data};
  TVMInputs_one inputs = {in};
  TVMOutputs_one outputs = {out};
  TVMInputs_two inputs_2 = {in};
  TVMOutputs_two outputs_2 = {out};
  TVMSetWorkspaces(&context, &first);
  TVMSetParameters(&context, &constants);
  if (TVMExecute(&one, &inputs, &outputs, &context)) return 1;
  TVMSetWorkspaces(&context, &second);
  TVMSetParameters(&context, &others);
  return TVMExecute(&two, &inputs_2, &outputs_2, &context);
}
"""
    )
    assert (one.workspace.peak_bytes, two.workspace.peak_bytes) == (1400, 2800)
    subprocess.run([build(tmp_path, "main.c", "one_lib0.c", "two_lib0.c")], check=True, timeout=60)


def test_nothing_of_known_size_is_allocated_at_run_time() -> None:
    source = c_files(plan_program(program(), Pools(), GREEDY))["my_model_lib0.c"]
    assert "lloc" not in source
    mixed = c_files(plan_program(program(t3=None), Pools(), GREEDY))["my_model_lib0.c"]
    assert mixed.count("TVMBackendAllocWorkspace(resource_handle") == 1
    assert "inputs->t3_size" in mixed


@needs_compiler
def test_dynamic_sizes_keep_the_allocation_at_run_time(tmp_path: Path) -> None:
    write(tmp_path, plan_program(program(t3=None), Pools(), GREEDY))
    assert COMPILER is not None
    subprocess.run([COMPILER, *FLAGS, "-c", "my_model_lib0.c"], cwd=tmp_path, check=True, timeout=60)
