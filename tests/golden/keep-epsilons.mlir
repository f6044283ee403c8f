// RUN: tpuc opt %s --chip bm1684x --quantize f16 --pass keep-epsilons --pass convert-top-to-tpu
// f16 would round the number to 0 and divide by it: magnitude, sum and quotient are f32.
module @net attributes {module.chip = "ALL", module.state = "TOP_F32"} {
  func.func @main(%arg0: tensor<1x2x4xf32>) -> tensor<1x2x4xf32> {
    %0 = "top.Input"(%arg0) : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32> loc("x")
    %1 = "top.Abs"(%0) : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32> loc("a")
    %2 = "top.AddConst"(%1) {const_val = 1.0e-12 : f64} : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32> loc("e")
    %3 = "top.Div"(%0, %2) : (tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<1x2x4xf32> loc("y")
    return %3 : tensor<1x2x4xf32>
  }
}
// CHECK-NOT: f16>
// CHECK: "tpu.AddConst"{{.*}}const_val = 9.99{{.*}}E-13
// CHECK: "tpu.Div"
