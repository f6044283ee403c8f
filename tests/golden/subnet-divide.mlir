// RUN: tpuc opt %s --chip bm1684x --pass subnet-divide
// Regions are pooled by the processor: what each pooling reads is made before the first one, what reads both is made behind
// them. A reshape between two functions of the processor computes nothing.
module @net attributes {module.chip = "bm1684x", module.mode = "F32", module.state = "TPU_LOWERED"} {
  func.func @main(%arg0: tensor<1x1x8x8xf32>, %arg1: tensor<2x5xf32>) -> tensor<2x1x2x2xf32> {
    %0 = "top.Input"(%arg0) : (tensor<1x1x8x8xf32>) -> tensor<1x1x8x8xf32> loc("x")
    %1 = "top.Input"(%arg1) : (tensor<2x5xf32>) -> tensor<2x5xf32> loc("r")
    %2 = "tpu.MulConst"(%0) {const_val = 2.000000e+00 : f64} : (tensor<1x1x8x8xf32>) -> tensor<1x1x8x8xf32> loc("a")
    %3 = "top.ROIPooling"(%2, %1) {pooled_h = 4 : i64, pooled_w = 4 : i64, spatial_scale = 1.000000e+00 : f64} : (tensor<1x1x8x8xf32>, tensor<2x5xf32>) -> tensor<2x1x4x4xf32> loc("b")
    %4 = "tpu.Reshape"(%3) {shape = [1, 2, 4, 4]} : (tensor<2x1x4x4xf32>) -> tensor<1x2x4x4xf32> loc("c")
    %5 = "tpu.MulConst"(%0) {const_val = 3.000000e+00 : f64} : (tensor<1x1x8x8xf32>) -> tensor<1x1x8x8xf32> loc("d")
    %6 = "top.ROIPooling"(%5, %1) {pooled_h = 2 : i64, pooled_w = 2 : i64, spatial_scale = 1.000000e+00 : f64} : (tensor<1x1x8x8xf32>, tensor<2x5xf32>) -> tensor<2x1x2x2xf32> loc("e")
    %7 = "top.ROIPooling"(%4, %1) {pooled_h = 2 : i64, pooled_w = 1 : i64, spatial_scale = 1.000000e+00 : f64} : (tensor<1x2x4x4xf32>, tensor<2x5xf32>) -> tensor<2x2x2x1xf32> loc("f")
    %8 = "tpu.Reshape"(%7) {shape = [2, 1, 2, 2]} : (tensor<2x2x2x1xf32>) -> tensor<2x1x2x2xf32> loc("g")
    %9 = "tpu.Add"(%6, %8) : (tensor<2x1x2x2xf32>, tensor<2x1x2x2xf32>) -> tensor<2x1x2x2xf32> loc("y")
    return %9 : tensor<2x1x2x2xf32>
  }
}
// CHECK: "tpu.MulConst"(%0) {const_val = 2.0
// CHECK-NEXT: "tpu.MulConst"(%0) {const_val = 3.0
// CHECK-NEXT: "top.ROIPooling"
// CHECK-NEXT: "tpu.Reshape"
// CHECK-NEXT: "top.ROIPooling"
// CHECK-NEXT: "top.ROIPooling"
// CHECK-NEXT: "tpu.Reshape"
// CHECK-NEXT: "tpu.Add"
