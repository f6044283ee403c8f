// RUN: tpuc opt %s --pass canonicalize
// Zeros around an image become padding of the convolution; x * sigmoid(x) is SiLU; a mean over images is a pool.
module @net attributes {module.chip = "ALL", module.state = "TOP_F32"} {
  func.func @main(%arg0: tensor<1x3x7x7xf32>, %arg1: tensor<4x3x3x3xf32>) -> tensor<1x4xf32> {
    %0 = "top.None"() : () -> none loc(unknown)
    %1 = "top.Input"(%arg0) : (tensor<1x3x7x7xf32>) -> tensor<1x3x7x7xf32> loc("x")
    %2 = "top.Pad"(%1) {mode = "constant", paddings = [0, 0, 0, 1, 0, 0, 1, 1], val = 0.0 : f64} : (tensor<1x3x7x7xf32>) -> tensor<1x3x8x9xf32> loc("p")
    %4 = "top.Conv"(%2, %arg1, %0) {kernel_shape = [3, 3], pads = [1, 0, 0, 0], strides = [1, 1]} : (tensor<1x3x8x9xf32>, tensor<4x3x3x3xf32>, none) -> tensor<1x4x7x7xf32> loc("c")
    %5 = "top.Sigmoid"(%4) : (tensor<1x4x7x7xf32>) -> tensor<1x4x7x7xf32> loc("s")
    %6 = "top.Mul"(%4, %5) : (tensor<1x4x7x7xf32>, tensor<1x4x7x7xf32>) -> tensor<1x4x7x7xf32> loc("m")
    %7 = "top.Reduce"(%6) {axes = [2, 3], keepdims = false, mode = "ReduceMean"} : (tensor<1x4x7x7xf32>) -> tensor<1x4xf32> loc("y")
    return %7 : tensor<1x4xf32>
  }
}
// CHECK-NOT: top.Pad
// CHECK: "top.Conv"{{.*}}pads = [1, 1, 1, 1]
// CHECK-NEXT: "top.SiLU"
// CHECK-NEXT: "top.AvgPool"{{.*}}kernel_shape = [7, 7]
// CHECK-NEXT: "top.Reshape"{{.*}}shape = [1, 4]
// CHECK-NOT: top.Sigmoid
