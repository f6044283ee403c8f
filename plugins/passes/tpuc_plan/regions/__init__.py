"""Groups of ops that share local memory: tiling, cascades, schedules, placement, and emission."""
