// RUN: tpuc opt %s --chip bm1684x --quantize f16 --pass keep-masks-float --pass convert-top-to-tpu
// f16 does not hold the number of the mask: the mask and the masked scores are f32.
module @net attributes {module.chip = "ALL", module.state = "TOP_F32"} {
  func.func @main(%arg0: tensor<1x2x4xf32>, %arg1: tensor<1x1x4xf32>) -> tensor<1x2x4xf32> {
    %0 = "top.Input"(%arg0) : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32> loc("x")
    %1 = "top.Input"(%arg1) : (tensor<1x1x4xf32>) -> tensor<1x1x4xf32> loc("m")
    %2 = "top.MulConst"(%1) {const_val = -3.0e38 : f64} : (tensor<1x1x4xf32>) -> tensor<1x1x4xf32> loc("d")
    %3 = "top.Add"(%0, %2) : (tensor<1x2x4xf32>, tensor<1x1x4xf32>) -> tensor<1x2x4xf32> loc("s")
    %4 = "top.Softmax"(%3) {axis = 2 : si32} : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32> loc("y")
    return %4 : tensor<1x2x4xf32>
  }
}
// CHECK-NOT: f16>
// CHECK: "tpu.MulConst"{{.*}}const_val = -3.0000000054977558E+38
// CHECK-NEXT: "tpu.Add"
// CHECK: "tpu.Softmax"
