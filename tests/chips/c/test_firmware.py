"""A folder of C as a part of firmware: a library of CMake, C++, typed pointers, and the build systems of boards."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from tpuc_driver.cli import main

from tests.chips.c.cortex_m import COMPILER, CORE, needs_board
from tests.chips.c.programs import DIGITS, build, compile_digits, needs_compiler, needs_lowerings, quantized, run
from tests.chips.command_line import tpuc

pytestmark = [needs_compiler, needs_lowerings]
PARENT = """\
cmake_minimum_required(VERSION 3.10)
project(firmware C CXX)
add_subdirectory(net)
add_subdirectory(other)
add_executable(firmware app.cpp)
target_link_libraries(firmware PRIVATE tpuc::digits tpuc::other)
"""
APPLICATION = """\
#include <cstdio>
#include "digits_network.h"
#include "other_network.h"
static_assert(DIGITS_IMAGE_RANK == 4 && DIGITS_IMAGE_SIZE == 64 && DIGITS_IMAGE_ZERO_POINT == 0, "the input");
static const int SHAPE[DIGITS_PROBABILITIES_RANK] = DIGITS_PROBABILITIES_SHAPE;
static uint8_t image[DIGITS_IMAGE_SIZE];
static float real[OTHER_IMAGE_SIZE], first[DIGITS_PROBABILITIES_SIZE], second[OTHER_PROBABILITIES_SIZE];
int main() {
  if (std::fread(image, 1, sizeof image, stdin) != sizeof image) return 1;
  for (int i = 0; i < DIGITS_IMAGE_SIZE; i++) real[i] = (image[i] - DIGITS_IMAGE_ZERO_POINT) * DIGITS_IMAGE_SCALE;
  if (digits_run(image, first, nullptr) != 0 || other_run(real, second, nullptr) != 0) return 2;
  for (int i = 0; i < SHAPE[1]; i++) std::printf("%.9g %.9g\\n", first[i], second[i]);
}
"""
TOOLCHAIN = f"""\
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER {COMPILER})
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_FLAGS_INIT "{" ".join(CORE)}")
"""
BARE = """\
cmake_minimum_required(VERSION 3.10)
project(firmware C)
add_subdirectory(net)
add_library(application STATIC app.c)
target_link_libraries(application PRIVATE tpuc::digits)
"""
ZEPHYR = """\
cmake_minimum_required(VERSION 3.10)
project(zephyr C)
set(ZEPHYR_BASE ${CMAKE_CURRENT_SOURCE_DIR})
function(zephyr_library_named name)
  set(ZEPHYR_CURRENT_LIBRARY ${name} PARENT_SCOPE)
  add_library(${name} STATIC)
endfunction()
function(zephyr_library_sources)
  target_sources(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGV})
endfunction()
function(zephyr_library_compile_options)
  target_compile_options(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGV})
endfunction()
function(zephyr_include_directories)
  target_include_directories(${ZEPHYR_CURRENT_LIBRARY} PUBLIC ${ARGV})
endfunction()
add_subdirectory(net)
"""
ESP_IDF = """\
cmake_minimum_required(VERSION 3.10)
project(esp C)
set(ESP_PLATFORM 1)
function(idf_component_register)
  cmake_parse_arguments(one "" "" "SRCS;INCLUDE_DIRS" ${ARGN})
  add_library(component STATIC ${one_SRCS})
  target_include_directories(component PUBLIC ${one_INCLUDE_DIRS})
  set(COMPONENT_LIB component PARENT_SCOPE)
endfunction()
add_subdirectory(net)
"""
needs_cmake = pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")


def cmake(folder: Path, *options: str) -> Path:
    """Configure and build; the folder of what was built."""
    for command in (["cmake", "-B", "build", *options], ["cmake", "--build", "build"]):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "build"


@needs_cmake
def test_two_networks_are_libraries_of_a_program_in_cpp(tmp_path: Path) -> None:
    """Which takes the integers of one, and what they mean for the other."""
    compile_digits(tmp_path / "net", "--quant-input")
    shutil.copy(DIGITS / "digits.onnx", tmp_path / "other.onnx")
    said = ["compile", str(tmp_path / "other.onnx"), "--chip", "c", *quantized(), "-o", str(tmp_path / "other")]
    assert main(said) == 0
    (tmp_path / "CMakeLists.txt").write_text(PARENT)
    (tmp_path / "app.cpp").write_text(APPLICATION)
    built = cmake(tmp_path, "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror -pedantic -std=c++11")
    assert not [path for path in built.rglob("digits") if path.is_file()]  # no example program
    images = np.load(DIGITS / "digits_eval.npz")["x"]
    scale = re.search(r"DIGITS_IMAGE_SCALE (\S+)f", (tmp_path / "net" / "digits_network.h").read_text())
    assert scale is not None
    stored = np.clip(np.rint(images[0].reshape(-1) / float(scale[1])), 0, 255).astype(np.uint8)
    rows = [line.split() for line in run(built / "firmware", stored.tobytes()).decode().splitlines()]
    meant = (stored.astype(np.float32) * np.float32(scale[1])).reshape(1, 1, 8, 8)
    np.savez(tmp_path / "image.npz", image=meant)
    assert tpuc("run", tmp_path / "other", tmp_path / "image.npz", "-o", tmp_path / "out.npz").returncode == 0
    wanted = np.load(tmp_path / "out.npz")["probabilities"].reshape(-1)
    assert [np.float32(row[0]) for row in rows] == [np.float32(row[1]) for row in rows] == wanted.tolist()


@needs_cmake
@needs_board
def test_it_builds_for_bare_metal(tmp_path: Path) -> None:
    compile_digits(tmp_path / "net")
    (tmp_path / "CMakeLists.txt").write_text(BARE)
    (tmp_path / "arm.cmake").write_text(TOOLCHAIN)
    (tmp_path / "app.c").write_text(
        '#include "digits_network.h"\n'
        "int32_t classify(const float* image, float* scores);\n"
        "int32_t classify(const float* image, float* scores) { return digits_run(image, scores, NULL); }\n"
    )
    built = cmake(tmp_path, "-DCMAKE_TOOLCHAIN_FILE=arm.cmake", "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror")
    assert {path.name for path in built.rglob("*.a")} == {"libdigits_network.a", "libapplication.a"}


@needs_cmake
@pytest.mark.parametrize(
    ("system", "library"), [(ZEPHYR, "digits_network"), (ESP_IDF, "component")], ids=["zephyr", "esp"]
)
def test_it_is_a_module_of_other_systems(system: str, library: str, tmp_path: Path) -> None:
    """As far as their functions of CMake are stood in for here: the systems themselves are not installed."""
    compile_digits(tmp_path / "net")
    (tmp_path / "CMakeLists.txt").write_text(system)
    built = cmake(tmp_path)
    assert [path.name for path in built.rglob("*.a")] == [f"lib{library}.a"]
    assert (tmp_path / "net" / "zephyr" / "module.yml").read_text() == "name: digits\nbuild:\n  cmake: .\n"


def test_it_is_a_library_of_arduino(tmp_path: Path) -> None:
    """Where all sources of the folder are compiled, and the sketch is the program."""
    compile_digits(tmp_path)
    fields = dict(line.split("=", 1) for line in (tmp_path / "library.properties").read_text().splitlines())
    assert {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url"} <= fields.keys()
    assert (tmp_path / fields["includes"]).is_file()
    (tmp_path / "sketch.c").write_text(
        '#include "digits_network.h"\nint main(void) { return DIGITS_IMAGE_RANK - 4; }\n'
    )
    sources = [path.name for path in sorted(tmp_path.glob("*.c"))]
    done = subprocess.run(["gcc", "-DARDUINO", "-o", "sketch", *sources, "-lm"], cwd=tmp_path, check=False)
    assert done.returncode == 0
    run(tmp_path / "sketch")


def test_names_of_tensors_do_not_disturb_the_header(tmp_path: Path) -> None:
    """Words of C++, the model's own name, and names that differ in the size of letters."""
    names = ["class", "net", "context", "A", "a", "1", "a/b", "_x"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in names]
    nodes = [helper.make_node("Sum", names, ["given"])]
    outputs = [helper.make_tensor_value_info("given", TensorProto.FLOAT, [2])]
    model = helper.make_model(
        helper.make_graph(nodes, "net", inputs, outputs), opset_imports=[helper.make_opsetid("", 13)]
    )
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    out = tmp_path / "out"
    assert main(["compile", str(tmp_path / "net.onnx"), "--chip", "c", "--quantize", "f32", "-o", str(out)]) == 0
    arguments = ", ".join(["x"] * len(names))
    call = f"float x[2] = {{1, 2}}, y[2]; net_run({arguments}, y, 0); return y[1] != 16;"
    program = f'#include "net_network.h"\nint main() {{ {call} }}\n'
    (out / "app.c").write_text(program.replace("main()", "main(void)"))
    run(build(out, ["app.c", "net_lib0.c", "net_operators.c"]))
    (out / "app.cpp").write_text(program)
    checked = ["g++", "-std=c++11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "app.cpp"]
    if shutil.which("g++") is not None:
        subprocess.run(checked, cwd=out, check=True)
