"""tpuc: a plugin-based compiler from trained networks to TPU files, with simulators."""
