"""Write example applications for firmware frameworks that run a network once: a starting point for users, compiled by
tests.
"""

from __future__ import annotations

from collections.abc import Iterator

from tpuc.api import FunctionProgram

from tpuc_c.network_header import element_type, end_names, ends


def zephyr_example(program: FunctionProgram) -> str:
    """`main.c` of a Zephyr sample."""
    name = program.identifier
    return f"""\
#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>
#include "{name}_network.h"

{_buffers(program)}

int main(void) {{
  /* Fill the inputs here, for example from a sensor. */
  const uint32_t start = k_cycle_get_32();
  const int32_t failed = {_call(program, "NULL")};
  const uint32_t cycles = k_cycle_get_32() - start;
  if (failed != 0) {{
    printk("{name} failed: %d\\n", (int)failed);
    return 1;
  }}
{_largest(program)}
  printk("{name}: largest output %d, %u us\\n", (int)largest, (unsigned)k_cyc_to_us_floor32(cycles));
  return 0;
}}
"""


def esp_idf_example(program: FunctionProgram) -> str:
    """`main.c` of an ESP-IDF application."""
    name = program.identifier
    return f"""\
#include <stdio.h>
#include "esp_timer.h"
#include "{name}_network.h"

{_buffers(program)}

void app_main(void) {{
  /* Fill the inputs here, for example from a sensor. */
  const int64_t start = esp_timer_get_time();
  const int32_t failed = {_call(program, "NULL")};
  const int64_t passed = esp_timer_get_time() - start;
  if (failed != 0) {{
    printf("{name} failed: %d\\n", (int)failed);
    return;
  }}
{_largest(program)}
  printf("{name}: largest output %d, %ld us\\n", (int)largest, (long)passed);
}}
"""


def arduino_example(program: FunctionProgram) -> str:
    """An Arduino sketch."""
    name = program.identifier
    return f"""\
#include <{name}_network.h>

{_buffers(program)}

void setup() {{
  Serial.begin(115200);
}}

void loop() {{
  // Fill the inputs here, for example from a sensor.
  const unsigned long start = micros();
  const int32_t failed = {_call(program, "nullptr")};
  const unsigned long passed = micros() - start;
  if (failed != 0) {{
    Serial.print("{name} failed: ");
    Serial.println((long)failed);
    delay(1000);
    return;
  }}
{_largest(program)}
  Serial.print("{name}: largest output ");
  Serial.print((long)largest);
  Serial.print(", us: ");
  Serial.println(passed);
  delay(1000);
}}
"""


def _ends(program: FunctionProgram) -> Iterator[tuple[str, str, str]]:
    """The type of an input or output, its array in the example, and the macro with its size."""
    inputs, outputs = ends(program)
    for info, name in zip([*inputs, *outputs], end_names(program), strict=True):
        yield element_type(info), f"{name}_data", f"{program.identifier}_{name}_SIZE".upper()


def _buffers(program: FunctionProgram) -> str:
    return "\n".join(f"static {type} {name}[{size}];" for type, name, size in _ends(program))


def _call(program: FunctionProgram, nothing: str) -> str:
    return f"{program.identifier}_run({', '.join([name for _, name, _ in _ends(program)] + [nothing])})"


def _largest(program: FunctionProgram) -> str:
    _, name, size = list(_ends(program))[len(ends(program)[0])]
    return f"""\
  int32_t largest = 0;
  for (int32_t i = 1; i < {size}; i++) {{
    if ({name}[i] > {name}[largest]) largest = i;
  }}"""
