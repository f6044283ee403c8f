// RUN: tpuc opt %s --chip bm1684x --quantize int8 --pass import-calibration{table=%S/scale-channels.table} --pass scale-channels{table=%S/scale-channels.table}
// The thresholds 1 and 4 of the channels before the SiLU become scales of 1 / 128 and 4 / 128; the SiLU keeps one.
module @net attributes {module.chip = "ALL", module.state = "TOP_F32", module.weight_file = "two-layers.npz"} {
  func.func @main(%arg0: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
    %0 = "top.Input"(%arg0) : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> loc("x")
    %1 = "top.Weight"() : () -> tensor<2x2x1x1xf32> loc("w1")
    %2 = "top.Weight"() : () -> tensor<2xf32> loc("b1")
    %3 = "top.Conv"(%0, %1, %2) {kernel_shape = [1, 1], pads = [0, 0, 0, 0], strides = [1, 1]} : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32> loc("c1")
    %4 = "top.SiLU"(%3) : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> loc("s")
    %5 = "top.Weight"() : () -> tensor<2x2x1x1xf32> loc("w2")
    %6 = "top.Weight"() : () -> tensor<2xf32> loc("b2")
    %7 = "top.Conv"(%4, %5, %6) {kernel_shape = [1, 1], pads = [0, 0, 0, 0], strides = [1, 1]} : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32> loc("c2")
    return %7 : tensor<1x2x2x2xf32>
  }
}
// CHECK: "top.Conv"{{.*}} -> tensor<1x2x2x2x!quant.uniform<i8:f32:1, {7.812500e-03,3.125000e-02}>>
// CHECK-NEXT: "top.SiLU"{{.*}} -> tensor<1x2x2x2x!quant.calibrated<f32<-4.000000e+00:4.000000e+00>>>
