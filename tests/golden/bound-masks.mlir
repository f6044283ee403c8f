// RUN: tpuc opt %s --chip cv183x --quantize bf16 --pass bound-masks
// A chip without infinity: numbers that hide keep within 2^100, and so do scores that are inputs, which may be masks.
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
// CHECK: "top.MulConst"(%1) {const_val = -1.2676506002282294E+30
// CHECK: "top.Clip"(%0) {max = 1.2676506002282294E+30 : f64, min = -1.2676506002282294E+30
// CHECK-NEXT: "top.Add"(%3, %2)
