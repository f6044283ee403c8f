// RUN: tpuc opt %S/two-layers.mlir --chip bm1684x --quantize int8 --pass calibrate{dataset=%S/two-layers.samples.npz,method=max,tune-num=0,bias-num=0} --pass search-quantize-table{dataset=%S/two-layers.samples.npz}
// RUN: tpuc qtable %S/two-layers.mlir --chip bm1684x --calibration-table %S/two-layers.table --dataset %S/two-layers.samples.npz --max-float-layers 1 --loss-table %t.txt -o %t.table
// The module stays as it is. Of two layers the second one loses more: its result of 4.75 is kept in steps of 8 / 128.
// CHECK: module.state = "TOP_F32"
// CHECK: "top.Conv"{{.*}} -> tensor<1x2x2x2xf32>
// CHECK: "top.Conv"{{.*}} -> tensor<1x2x2x2xf32>
// CHECK: float layers
// CHECK-NEXT: 0 0.98
// CHECK-NEXT: 1 0.99{{[0-9 .,-]*}} c2
