// RUN: tpuc opt %s --pass fold-constants
// What depends on weights only is computed now, under its own name (the weights are in the npz).
module @net attributes {module.chip = "ALL", module.state = "TOP_F32", module.weight_file = "fold-constants.npz"} {
  func.func @main(%arg0: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
    %0 = "top.Input"(%arg0) : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> loc("x")
    %1 = "top.Weight"() : () -> tensor<2xf32> loc("w")
    %2 = "top.Reshape"(%1) {shape = [1, 2, 1, 1]} : (tensor<2xf32>) -> tensor<1x2x1x1xf32> loc("s")
    %3 = "top.MulConst"(%2) {const_val = 2.0 : f64} : (tensor<1x2x1x1xf32>) -> tensor<1x2x1x1xf32> loc("d")
    %4 = "top.Add"(%0, %3) : (tensor<1x2x2x2xf32>, tensor<1x2x1x1xf32>) -> tensor<1x2x2x2xf32> loc("y")
    return %4 : tensor<1x2x2x2xf32>
  }
}
// CHECK: %0 = "top.Input"
// CHECK-NEXT: %1 = "top.Weight"() : () -> tensor<1x2x1x1xf32>
// CHECK-NEXT: %2 = "top.Add"(%0, %1)
// CHECK: loc("d")
