// RUN: not tpuc opt %S/two-layers.mlir --chip bm1684x --quantize int8 --pass meet-accuracy
// What a network is good for shows on samples.
// CHECK: samples: give a folder with --dataset, or a list of files with --data-list.
