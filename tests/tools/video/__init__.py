"""Videos as inputs."""
