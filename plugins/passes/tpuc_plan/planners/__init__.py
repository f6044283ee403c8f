"""Memory planners, one per file, and the arena in which they place buffers."""
