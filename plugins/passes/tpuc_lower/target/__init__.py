"""What the chip that a module is compiled for can do, and what passes tell each other about it."""
