// RUN: tpuc opt %s --quantize int8 --pass expand-matrices
// The integers that BM1684X keeps in f16 become a matrix of floats in other modes.
module @net attributes {module.chip = "ALL", module.state = "TOP_F32", module.weight_file = "expand-matrices.npz"} {
  func.func @main(%arg0: tensor<1x32xf32>) -> tensor<1x2xf32> {
    %0 = "top.Input"(%arg0) : (tensor<1x32xf32>) -> tensor<1x32xf32> loc("x")
    %1 = "top.Weight"() : () -> tensor<2x16xui8> loc("w_integers")
    %2 = "top.Weight"() : () -> tensor<2x1xf32> loc("w_scale")
    %3 = "top.Weight"() : () -> tensor<2x1xui8> loc("w_zp")
    %4 = "top.None"() : () -> none
    %5 = "top.A16MatMul"(%0, %1, %2, %3, %4) {q_group_size = 32, weight_bits = 4} : (tensor<1x32xf32>, tensor<2x16xui8>, tensor<2x1xf32>, tensor<2x1xui8>, none) -> tensor<1x2xf32> loc("y")
    return %5 : tensor<1x2xf32>
  }
}
// CHECK: "top.Weight"() : () -> tensor<32x2xf32>
// CHECK: "top.MatMul"(
