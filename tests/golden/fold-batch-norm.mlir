// RUN: tpuc opt %s --pass canonicalize
// Statistics, then a scale and a summand per channel, disappear into filter and bias (the weights are in the npz).
module @net attributes {module.chip = "ALL", module.state = "TOP_F32", module.weight_file = "fold-batch-norm.npz"} {
  func.func @main(%arg0: tensor<1x1x2x2xf32>) -> tensor<1x2x2x2xf32> {
    %0 = "top.None"() : () -> none loc(unknown)
    %1 = "top.Input"(%arg0) : (tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32> loc("x")
    %2 = "top.Weight"() : () -> tensor<2x1x1x1xf32> loc("w")
    %3 = "top.Conv"(%1, %2, %0) {kernel_shape = [1, 1], pads = [0, 0, 0, 0], strides = [1, 1]} : (tensor<1x1x2x2xf32>, tensor<2x1x1x1xf32>, none) -> tensor<1x2x2x2xf32> loc("c")
    %4 = "top.Weight"() : () -> tensor<2xf32> loc("mean")
    %5 = "top.Weight"() : () -> tensor<2xf32> loc("variance")
    %6 = "top.BatchNorm"(%3, %4, %5, %0, %0) {epsilon = 1.0e-5 : f64} : (tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, none, none) -> tensor<1x2x2x2xf32> loc("n")
    %7 = "top.AddConst"(%6) {const_val = 0.5 : f64} : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> loc("a")
    %8 = "top.Relu"(%7) {relu_limit = -1.0 : f64} : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> loc("r")
    return %8 : tensor<1x2x2x2xf32>
  }
}
// CHECK: %0 = "top.Input"
// CHECK-NEXT: %1 = "top.Weight"() : () -> tensor<2x1x1x1xf32>
// CHECK-NEXT: %2 = "top.Weight"() : () -> tensor<2xf32>
// CHECK-NEXT: %3 = "top.Conv"(%0, %1, %2) {{.*}}do_relu = true
// CHECK-NEXT: return %3
// CHECK: loc("r")
