// RUN: tpuc opt %S/two-layers.mlir --pass move-factors{table=%S/move-factors.table} -o %t.mlir
// RUN: tpuc npz dump %t_weight.npz w1_1
// RUN: tpuc npz dump %t_weight.npz b1_1
// RUN: tpuc npz dump %t_weight.npz w2_1
// RUN: tpuc opt %t.mlir --pass move-factors{table=%S/move-factors.table}
// The table's factors of the first convolution, 2 and 0.5: its filters and its bias are divided by them, the filters that read its channels multiplied. The module says so, and stays as it is the second time.
// CHECK: [[[[ 0.5 ]]
// CHECK: [[ 0.25]]]
// CHECK: [[[-4. ]]
// CHECK: [[ 8. ]]]]
// CHECK: [ 0.25 -2. ]
// CHECK: [[[[ 0.5 ]]
// CHECK: [[-0.5 ]]]
// CHECK: [[[ 2. ]]
// CHECK: [[ 0.25]]]]
// CHECK: module.channel_factors = {c1 = {factors = array<f32: 2.000000e+00, 5.000000e-01>, shape = array<i64: 2, 1, 1>}}
