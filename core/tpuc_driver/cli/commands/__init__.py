"""The commands of the core, one file each; every file holds its click command as `command`."""
