"""The Caffe front end: imports a prototxt and its caffemodel into TOP through importer tables."""
