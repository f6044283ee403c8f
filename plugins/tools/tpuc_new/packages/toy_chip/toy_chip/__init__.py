"""A chip with 8 lanes of 2 KiB: the example to copy for a chip of your own. README.md is its manual."""
