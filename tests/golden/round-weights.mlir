// RUN: tpuc opt %S/two-layers.mlir --chip bm1684x --quantize int8 --pass round-weights{table=%S/round-weights.table} -o %t.mlir
// RUN: tpuc npz dump %t_weight.npz w1_1
// Filters of the first convolution in steps of 1 / 127 and 4 / 127 are 127, 63.5 and -63.5, 127. The nearest integers are 127, 64 and -64, 127 (halves to even); the table says that the second of them is one less.
// CHECK: [[[[ 1. ]]
// CHECK: [[ 0.496063]]]
// CHECK: [[[-2.015748]]
// CHECK: [[ 4. ]]]]
