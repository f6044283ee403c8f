"""Read the modes of single ops from a quantize table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tpuc.api import QUANTIZE_TABLE, CalibrationError, Module, Pass, PassContext, UsageError, read_text

from tpuc_lower.target.kernels import chip_of


@dataclass(frozen=True)
class ImportQuantizeTable(Pass):
    """Read the file `table`: one `op_name mode` per line, comments begin with `#`.

    Leaves `{op name: mode}` in the result `quantize_table`.
    """

    name = "import-quantize-table"
    table: str = ""

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises CalibrationError for invalid lines, unknown names and unknown modes."""
        if not self.table:
            raise UsageError("pass 'import-quantize-table' needs a file: import-quantize-table{table=FILE}")
        path = Path(self.table)
        modes = chip_of(context, self.name).description.modes
        names = {operation.name for operation in module.main.operations}
        table: dict[str, str] = dict(context.find(QUANTIZE_TABLE, {}))
        text = read_text(path, CalibrationError, "Give --quantize-table lines 'op_name mode'.")
        for number, line in enumerate(text.splitlines(), 1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            where = f"{path}:{number}"
            if len(words) != 2:
                raise CalibrationError(f"{where}: {line.strip()!r} is not 'op_name mode'; correct the line")
            name, mode = words[0], words[1].lower()
            if name not in names:
                raise CalibrationError(f"{where}: no op named '{name}' in module '{module.name}'; correct the name")
            if mode not in modes:
                raise CalibrationError(f"{where}: mode '{words[1]}' is not one of {', '.join(modes)}; choose another")
            table[name] = mode
        context.leave(QUANTIZE_TABLE, table)
        return False
