"""Videos as pictures, by OpenCV, which the extra `video` installs."""
