// RUN: tpuc opt %s --quantize bf16 --pass drop-dynamic-quantization
// The products of both get their scale back: they are products of the floats. Of the last one the integers are read.
module @net attributes {module.chip = "ALL", module.state = "TOP_F32", module.weight_file = "drop-dynamic-quantization.npz"} {
  func.func @main(%arg0: tensor<1x4xf32>, %arg1: tensor<4x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
    %0 = "top.Input"(%arg0) : (tensor<1x4xf32>) -> tensor<1x4xf32> loc("x")
    %1 = "top.Input"(%arg1) : (tensor<4x2xf32>) -> tensor<4x2xf32> loc("w")
    %2 = "top.None"() : () -> none
    %3:3 = "top.DynamicQuantizeLinear"(%0) : (tensor<1x4xf32>) -> (tensor<1x4xf32>, tensor<f32>, tensor<f32>) loc(fused["q", "s", "z"])
    %4 = "top.MatMul"(%3#0, %1, %2) : (tensor<1x4xf32>, tensor<4x2xf32>, none) -> tensor<1x2xf32> loc("m")
    %5 = "top.Mul"(%4, %3#1) : (tensor<1x2xf32>, tensor<f32>) -> tensor<1x2xf32> loc("y")
    %6:3 = "top.DynamicQuantizeLinear"(%5) : (tensor<1x2xf32>) -> (tensor<1x2xf32>, tensor<f32>, tensor<f32>) loc(fused["q2", "s2", "z2"])
    return %5, %6#0 : tensor<1x2xf32>, tensor<1x2xf32>
  }
}
// CHECK: "top.MatMul"(%0, %1
// CHECK: "top.DynamicQuantizeLinear"
