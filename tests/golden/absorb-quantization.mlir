// RUN: tpuc opt %s --pass absorb-quantization
// Casts to integers and back become types: the product computes with the integers, its bias counts in steps of the sums,
// and the relu between two values of one scale goes into it. Floats are cast where they come in and where they go out.
module @net attributes {module.chip = "ALL", module.state = "TOP_F32", module.weight_file = "absorb-quantization.npz"} {
  func.func @main(%arg0: tensor<1x4xf32>) -> tensor<1x2xf32> {
    %0 = "top.Input"(%arg0) : (tensor<1x4xf32>) -> tensor<1x4xf32> loc("x")
    %1 = "top.QuantizeLinear"(%0) {axis = 1 : i64, to = "UINT8", y_scale = [5.000000e-01], y_zero_point = [100]} : (tensor<1x4xf32>) -> tensor<1x4xf32> loc("x_q")
    %2 = "top.DequantizeLinear"(%1) {axis = 1 : i64, of = "UINT8", x_scale = [5.000000e-01], x_zero_point = [100]} : (tensor<1x4xf32>) -> tensor<1x4xf32> loc("x_dq")
    %3 = "top.Weight"() : () -> tensor<2x4x!quant.uniform<i8:f32:0, {0.25, 0.5}>> loc("w")
    %4 = "quant.dcast"(%3) : (tensor<2x4x!quant.uniform<i8:f32:0, {0.25, 0.5}>>) -> tensor<2x4xf32> loc("w_dq")
    %5 = "top.Weight"() : () -> tensor<2xf32> loc("b")
    %6 = "top.MatMul"(%2, %4, %5) {right_transpose = true} : (tensor<1x4xf32>, tensor<2x4xf32>, tensor<2xf32>) -> tensor<1x2xf32> loc("m")
    %7 = "top.Relu"(%6) {relu_limit = -1.0 : f64} : (tensor<1x2xf32>) -> tensor<1x2xf32> loc("r")
    %8 = "top.QuantizeLinear"(%7) {axis = 1 : i64, to = "INT8", y_scale = [1.000000e+00], y_zero_point = [-5]} : (tensor<1x2xf32>) -> tensor<1x2xf32> loc("y_q")
    %9 = "top.DequantizeLinear"(%8) {axis = 1 : i64, of = "INT8", x_scale = [1.000000e+00], x_zero_point = [-5]} : (tensor<1x2xf32>) -> tensor<1x2xf32> loc("y")
    return %9 : tensor<1x2xf32>
  }
}
// CHECK: "top.Input"
// CHECK-NEXT: "quant.qcast"(%0) {round_mode = #tpu<round_mode HalfToEven>} : (tensor<1x4xf32>) -> tensor<1x4x!quant.uniform<u8:f32, 5.000000e-01:100>>
// CHECK: "top.Weight"() : () -> tensor<2xi32>
// CHECK-NEXT: "top.MatMul"{{.*}}do_relu = true{{.*}} -> tensor<1x2x!quant.uniform<i8:f32, 1.000000e+00:-5>>
// CHECK-NEXT: "quant.dcast"{{.*}} -> tensor<1x2xf32>
