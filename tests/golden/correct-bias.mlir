// RUN: tpuc opt %S/two-layers.mlir --chip bm1684x --quantize int8 --pass import-calibration{table=%S/two-layers.table} --pass correct-bias{table=%S/two-layers.table} -o %t.mlir
// RUN: tpuc npz dump %t_weight.npz b2_1
// The table's shifts of the second convolution, 0.5 and -0.25, are added to its bias of 0 and 1.
// CHECK: [0.5 0.75]
