"""Single ops as tiled tasks: their buffers, packed constants, steps, and cost."""
