"""CV186x against the vendor's functional model, runtime and compiler."""
