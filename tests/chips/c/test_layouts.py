"""`--layout`: folders of C that the tools of Zephyr, Arduino, and ESP-IDF take, with stand-ins for what these bring."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from tpuc_c.chip import CHIP
from tpuc_driver.cli import main

from tests.chips.c.cortex_m import COMPILER, CORE
from tests.chips.c.programs import DIGITS, FLOAT, compile_digits, needs_compiler, needs_lowerings, run
from tests.chips.c.test_firmware import cmake, needs_cmake

pytestmark = [needs_compiler, needs_lowerings]

# What `find_package(Zephyr)` does: read the options of the application, and add every module that has one.
ZEPHYR = r"""
set(record ${CMAKE_BINARY_DIR}/calls)
file(STRINGS ${CMAKE_SOURCE_DIR}/prj.conf lines REGEX "^CONFIG_")
foreach(line ${lines})
  string(REGEX MATCH "^([A-Z0-9_]+)=(.*)$" _ ${line})
  set(${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
endforeach()
enable_language(C)
add_executable(app)
target_include_directories(app PRIVATE ${ZEPHYR_STUBS})
function(zephyr_library_named name)
  set(ZEPHYR_CURRENT_LIBRARY ${name} PARENT_SCOPE)
  add_library(${name} STATIC)
  target_link_libraries(app PRIVATE ${name} m)
endfunction()
function(zephyr_library_sources)
  target_sources(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGV})
endfunction()
function(zephyr_library_compile_options)
  file(APPEND ${record} "${ARGV}\n")
  target_compile_options(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGV})
endfunction()
function(zephyr_include_directories)
  target_include_directories(app PRIVATE ${ARGV})
endfunction()
foreach(module ${ZEPHYR_EXTRA_MODULES})
  file(STRINGS ${module}/zephyr/module.yml lines)
  foreach(line ${lines})
    if(line MATCHES "^  cmake: (.*)$")
      add_subdirectory(${module}/${CMAKE_MATCH_1} ${CMAKE_BINARY_DIR}/module)
    elseif(line MATCHES "^  kconfig: (.*)$" AND NOT EXISTS ${module}/${CMAKE_MATCH_1})
      message(FATAL_ERROR "no ${CMAKE_MATCH_1}")
    endif()
  endforeach()
endforeach()
"""
KERNEL = """\
#include <stdint.h>
static inline uint32_t k_cycle_get_32(void) { return 7; }
static inline uint32_t k_cyc_to_us_floor32(uint32_t cycles) { return cycles; }
"""
# What `project.cmake` does: a component is a folder with a CMakeLists.txt, and `main` sees all of them.
ESP_IDF = r"""
macro(idf_component_register)
  cmake_parse_arguments(one "" "" "SRCS;INCLUDE_DIRS" ${ARGN})
  set(COMPONENT_LIB component_${index})
  add_library(${COMPONENT_LIB} OBJECT ${one_SRCS})
  foreach(folder ${one_INCLUDE_DIRS})
    include_directories(${CMAKE_CURRENT_SOURCE_DIR}/${folder})
    set_property(GLOBAL APPEND PROPERTY seen ${CMAKE_CURRENT_SOURCE_DIR}/${folder})
  endforeach()
  get_property(all GLOBAL PROPERTY seen)
  target_include_directories(${COMPONENT_LIB} PRIVATE ${all} ${STUBS})
  target_link_libraries(app PRIVATE ${COMPONENT_LIB} m)
endmacro()
macro(project name)
  _project(${name} C)
  get_filename_component(STUBS $ENV{IDF_PATH}/stubs ABSOLUTE)
  add_executable(app ${STUBS}/start.c)
  set(index 0)
  foreach(folder ${EXTRA_COMPONENT_DIRS} ${CMAKE_SOURCE_DIR}/main)
    math(EXPR index "${index} + 1")
    add_subdirectory(${folder} ${CMAKE_BINARY_DIR}/${index})
  endforeach()
endmacro()
"""
ARDUINO = """\
#include <cstdint>
#include <cstdio>
static inline unsigned long micros() { return 7; }
static inline void delay(unsigned long) {}
struct Port {
  void begin(long) {}
  void print(const char* text) { std::fputs(text, stdout); }
  void print(long value) { std::printf("%ld", value); }
  void println(long value) { std::printf("%ld\\n", value); }
  void println(unsigned long) { std::printf("0\\n"); }
};
static Port Serial;
"""


def laid_out(folder: Path, layout: str, *options: str) -> None:
    compile_digits(folder, "--layout", layout, *options, mode=FLOAT)


@functools.cache
def expected() -> int:
    """The class of an empty picture, by a folder with a layout as `tpuc run` builds it."""
    with tempfile.TemporaryDirectory() as folder:
        laid_out(Path(folder), "zephyr")
        found = CHIP.load(CHIP.archive(Path(folder))).run({"image": np.zeros((1, 1, 8, 8), np.float32)})
    return int(found["probabilities"].argmax())


@needs_cmake
def test_zephyr_takes_it_as_a_module(tmp_path: Path) -> None:
    net = tmp_path / "net"
    laid_out(net, "zephyr")
    assert (
        net / "zephyr/module.yml"
    ).read_text() == "name: digits\nbuild:\n  cmake: zephyr\n  kconfig: zephyr/Kconfig\n"
    symbol = re.findall(r"^config (\w+)$", (net / "zephyr/Kconfig").read_text(), re.MULTILINE)
    assert symbol == ["TPUC_DIGITS"]
    assert "if(CONFIG_TPUC_DIGITS)" in (net / "zephyr/CMakeLists.txt").read_text()
    (tmp_path / "ZephyrConfig.cmake").write_text(ZEPHYR)
    (tmp_path / "stubs/zephyr/sys").mkdir(parents=True)
    (tmp_path / "stubs/zephyr/kernel.h").write_text(KERNEL)
    (tmp_path / "stubs/zephyr/sys/printk.h").write_text("#include <stdio.h>\n#define printk printf\n")
    stubs = (f"-DZephyr_DIR={tmp_path}", f"-DZEPHYR_STUBS={tmp_path}/stubs", "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror")
    built = cmake(net / "samples/digits", *stubs)
    assert run(built / "app") == f"digits: largest output {expected()}, 0 us\n".encode()
    assert (built / "calls").read_text() == "-ffp-contract=off\n"


@needs_cmake
def test_esp_idf_takes_it_as_a_component(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = tmp_path / "net"
    laid_out(net, "esp-idf")
    assert 'version: "1.0.0"\n' in (net / "idf_component.yml").read_text()
    (tmp_path / "tools/cmake").mkdir(parents=True)
    (tmp_path / "tools/cmake/project.cmake").write_text(ESP_IDF)
    (tmp_path / "stubs").mkdir()
    (tmp_path / "stubs/esp_timer.h").write_text(
        "#include <stdint.h>\nstatic int64_t esp_timer_get_time(void) { return 0; }\n"
    )
    (tmp_path / "stubs/start.c").write_text("void app_main(void);\nint main(void) { app_main(); return 0; }\n")
    monkeypatch.setenv("IDF_PATH", str(tmp_path))
    built = cmake(net / "examples/digits", "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror")
    assert run(built / "app") == f"digits: largest output {expected()}, 0 us\n".encode()
    assert "-ffp-contract=off" in (built / "1/CMakeFiles/component_1.dir/flags.make").read_text()


def test_arduino_takes_it_as_a_library(tmp_path: Path) -> None:
    """All of `src/` is compiled, the sketch as C++ behind `#include <Arduino.h>`, and nothing of `extras/`."""
    net = tmp_path / "net"
    laid_out(net, "arduino")
    fields = dict(line.split("=", 1) for line in (net / "library.properties").read_text().splitlines())
    wanted = {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url", "architectures"}
    assert wanted <= fields.keys()
    assert (net / "src" / fields["includes"]).is_file()
    (tmp_path / "Arduino.h").write_text(ARDUINO)
    (tmp_path / "start.cpp").write_text("void setup();\nvoid loop();\nint main() { setup(); loop(); }\n")
    sketch = (net / "examples/digits/digits.ino").read_text()
    (tmp_path / "sketch.cpp").write_text(f"#include <Arduino.h>\n{sketch}")
    strict = ["-Wall", "-Wextra", "-Werror", "-I.", "-Inet/src"]
    for source in sorted((net / "src").glob("*.c")):
        subprocess.run(["gcc", "-std=gnu11", *strict, "-c", source], cwd=tmp_path, check=True)
    objects = [path.name for path in tmp_path.glob("*.o")]
    command = ["g++", "-std=gnu++11", *strict, "-o", "app", "sketch.cpp", "start.cpp", *objects, "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert run(tmp_path / "app") == f"digits: largest output {expected()}, us: 0\n".encode()


@pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"needs {COMPILER} with newlib")
def test_arduino_rounds_products_apart(tmp_path: Path) -> None:
    """Although its flags let a Cortex-M4 fuse them, and a library cannot change the flags."""
    laid_out(tmp_path, "arduino")
    text = (tmp_path / "src" / "digits_operators.c").read_text()
    fused: list[int] = []
    for number, code in enumerate((text, text.split("#endif\n", 1)[1])):
        (tmp_path / "src" / f"{number}.c").write_text(code)
        command = [COMPILER, *CORE, "-std=gnu11", "-O2", "-S", "-o", "-", tmp_path / "src" / f"{number}.c"]
        assembly = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        fused.append(len(re.findall(r"\bvfn?m[as]", assembly)))
    assert fused[0] == 0
    assert fused[1] > 0


def test_a_layout_reads_back_and_examples_are_for_networks_without_pools(tmp_path: Path) -> None:
    pools = ("--usmp-workspace-pools", "sram", "--usmp-workspace-pool-sram=target=c:rw;size=1000000")
    for layout in CHIP.layouts:
        folder = tmp_path / layout
        laid_out(folder, layout, *pools)
        assert not (folder / "examples").exists()
        assert not (folder / "samples").exists()
        assert CHIP.load(CHIP.archive(folder), layout).disassemble().startswith("/*")


def test_other_layouts_and_chips_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for chip, layout, sentence in (
        ("c", "mbed", "chip 'c' has no layout 'mbed'; choose one of arduino, esp-idf, zephyr."),
        ("bm1684x", "zephyr", "chip 'bm1684x' does not write folders for firmware frameworks; leave out --layout."),
    ):
        given = ["--chip", chip, "--layout", layout, "-o", str(tmp_path / "x")]
        assert main(["compile", str(DIGITS / "digits.onnx"), *given]) == 2
        assert sentence in capsys.readouterr().err
