"""Tests of the Caffe front end."""
