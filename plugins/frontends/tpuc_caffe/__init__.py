"""The Caffe front end: a prototxt and its caffemodel become TOP through importer tables."""
