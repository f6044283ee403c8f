// RUN: tpuc opt %S/two-layers.mlir --chip bm1684x --pass convert-top-to-tpu --pass group-layers --pass pack-weights
// Each convolution has packed constants, and keeps its filter and bias as they were.
// CHECK: "top.Weight"() : () -> tensor<2x2x1x1xf32>
// CHECK: "tpu.Conv2D"{{.*}}packed = "c1_packed"
// CHECK: "tpu.Conv2D"{{.*}}packed = "c2_packed"
