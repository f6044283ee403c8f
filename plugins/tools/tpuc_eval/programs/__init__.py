"""Programs of a deployment folder that choose objects with masks or points: `objects.hpp` and `objects.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources

from tpuc_eval.postprocess.grids import cell_count, cells
from tpuc_eval.postprocess.yolo_tasks import YoloPose, YoloSegment, YoloTask

NAMES = ("objects.hpp", "objects.py")


def object_programs(reader: YoloTask, shapes: Sequence[tuple[int, ...]], height: int, width: int) -> Mapping[str, str]:
    """Return the text of the programs by name; none for other tasks and for outputs of another form. `shapes` are those
    of the outputs, `height` and `width` those of the input.
    """
    count = cell_count((width, height))
    shapes = [shape[:3] if shape[2:] == (count, 1) else shape for shape in shapes]  # some chips store four axes
    columns = [place for place, shape in enumerate(shapes) if len(shape) == 3 and shape[2] == count]
    maps = [place for place, shape in enumerate(shapes) if len(shape) == 4]
    if len(columns) != 3 or shapes[columns[0]][1] != 4 or any(shape[0] != 1 for shape in shapes):
        return {}
    more = shapes[columns[2]][1]
    facts = {
        "boxes": columns[0],
        "scores": columns[1],
        "more": columns[2],
        "count": count,
        "classes": shapes[columns[1]][1],
        "height": height,
        "width": width,
        "score": reader.score,
        "iou": reader.iou,
        "keep": reader.keep,
    }
    match reader:
        case YoloSegment() if len(maps) == 1 and shapes[maps[0]][1:] == (more, *cells((width, height), 4)):
            rows, places = shapes[maps[0]][2:]
            facts |= {"prototypes": maps[0], "points": 0, "values": more, "rows": rows, "columns": places}
        case YoloPose() if more == reader.points * reader.values:
            facts |= {"prototypes": 0, "points": reader.points, "values": reader.values, "rows": 0, "columns": 0}
        case _:
            return {}
    return {name: _filled(f"{name}.in", facts) for name in NAMES}


def _filled(template: str, facts: Mapping[str, float]) -> str:
    pieces = resources.files(__name__).joinpath(template).read_text(encoding="utf-8").split("@@")
    return "".join(repr(facts[piece]) if place % 2 else piece for place, piece in enumerate(pieces))
