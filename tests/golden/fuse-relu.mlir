// RUN: tpuc opt %s --pass canonicalize
// A relu moves into the op that feeds it, unless somebody else reads the value without it. Clip(0, 6) is a relu.
module @net attributes {module.chip = "ALL", module.state = "TOP_F32"} {
  func.func @main(%arg0: tensor<1x3x8x8xf32>, %arg1: tensor<4x3x3x3xf32>, %arg2: tensor<4xf32>) -> (tensor<1x4x6x6xf32>, tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>) {
    %0 = "top.Input"(%arg0) : (tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf32> loc("x")
    %3 = "top.Conv"(%0, %arg1, %arg2) {do_relu = false, kernel_shape = [3, 3], pads = [0, 0, 0, 0], strides = [1, 1]} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<1x4x6x6xf32> loc("c")
    %4 = "top.Clip"(%3) {max = 6.0 : f64, min = 0.0 : f64} : (tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32> loc("r")
    %5 = "top.MaxPool"(%0) {kernel_shape = [2, 2], strides = [2, 2]} : (tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32> loc("p")
    %6 = "top.Relu"(%5) {relu_limit = -1.0 : f64} : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32> loc("q")
    return %4, %5, %6 : tensor<1x4x6x6xf32>, tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>
  }
}
// CHECK: "top.Conv"{{.*}}do_relu = true{{.*}}relu_limit = 6.000000e+00 : f64
// CHECK-NOT: top.Clip
// CHECK: "top.MaxPool"{{.*}}do_relu = false
// CHECK-NEXT: "top.Relu"
// CHECK: loc("r")
