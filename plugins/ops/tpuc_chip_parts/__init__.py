"""What kernels and lowerings of several chips are made of: tiles of windows, strided copies, shared lowerings."""
