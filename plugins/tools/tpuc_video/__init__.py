"""Read videos as pictures with OpenCV, which the extra `video` installs."""
