"""Memory planners, one file each, and the arena that they place buffers in."""
