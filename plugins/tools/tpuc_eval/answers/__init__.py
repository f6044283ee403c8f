"""Print classes and objects in `tpuc run`."""
