// A convolution with a relu, then another one; inputs of golden texts beside it, with its weights, two samples and a calibration table.
module @net attributes {module.chip = "ALL", module.state = "TOP_F32", module.weight_file = "two-layers.npz"} {
  func.func @main(%arg0: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
    %0 = "top.Input"(%arg0) : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> loc("x")
    %1 = "top.Weight"() : () -> tensor<2x2x1x1xf32> loc("w1")
    %2 = "top.Weight"() : () -> tensor<2xf32> loc("b1")
    %3 = "top.Conv"(%0, %1, %2) {do_relu = true, kernel_shape = [1, 1], pads = [0, 0, 0, 0], strides = [1, 1]} : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32> loc("c1")
    %4 = "top.Weight"() : () -> tensor<2x2x1x1xf32> loc("w2")
    %5 = "top.Weight"() : () -> tensor<2xf32> loc("b2")
    %6 = "top.Conv"(%3, %4, %5) {kernel_shape = [1, 1], pads = [0, 0, 0, 0], strides = [1, 1]} : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32> loc("c2")
    return %6 : tensor<1x2x2x2xf32>
  }
}
