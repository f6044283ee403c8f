"""The built-in commands, one file each, which define the click command `command`."""
