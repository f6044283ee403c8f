"""CV186x, and made-up members of its family."""
