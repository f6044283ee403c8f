"""CV183x against the vendor's functional model and runtime."""
