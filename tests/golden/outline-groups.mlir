// RUN: tpuc opt %S/two-layers.mlir --chip bm1684x --pass convert-top-to-tpu --pass group-layers --pass pack-weights --pass assign-addresses --pass outline-groups
// Both convolutions are a group: loads come first and a store last, and between them nothing touches DDR.
// CHECK: "tpu.Group"(%1)
// CHECK-NEXT: "tpu.Load"(%1)
// CHECK: "tpu.Conv2D"
// CHECK-NOT: tpu.Store
// CHECK: "tpu.Conv2D"
// CHECK-NEXT: "tpu.Store"
// CHECK-NEXT: "tpu.Yield"
// CHECK-NEXT: flow = [-1, 0,
