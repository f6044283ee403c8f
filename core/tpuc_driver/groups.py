"""Entry-point groups of the driver, which `tpuc.groups` names: what commands, sessions, and pools find by name."""

from __future__ import annotations

from tpuc.registry.groups import Group

ANSWERS = Group("tpuc.answers", "answer", "tpuc_driver.api.answers:Answer", is_class=True)
BOARDS = Group("tpuc.boards", "board", "tpuc_driver.api.board:Board")
COMMANDS = Group("tpuc.commands", "command", "click:Command")
EXECUTORS = Group("tpuc.executors", "executor", "tpuc_driver.work.job:Pool", is_class=True)
FRAMES = Group("tpuc.frames", "reader of videos", "tpuc_driver.data.frames:FrameReader")
MEASURES = Group("tpuc.measures", "measure of accuracy", "tpuc_driver.api.accuracy:AccuracyMeasure", is_class=True)
OBJECTS = Group("tpuc.objects", "kind of network object", "tpuc_driver.api.objects:ObjectReader")
PRESETS = Group("tpuc.presets", "preset", "tpuc_driver.data.description:Preset")
READERS = Group("tpuc.readers", "reader", "tpuc_driver.data.preprocess:Reader")
