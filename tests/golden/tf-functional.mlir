// RUN: tpuc opt %s --pass tf-to-functional
// A merge that a predicate decides is a choice between two regions.
func.func @main(%p: tensor<i1>, %x: tensor<f32>) -> tensor<f32> {
  %r = tf_executor.graph : tensor<f32> {
    %xt, %xf, %k1 = tf_executor.Switch %p, %x : tensor<f32>
    %a, %k2 = tf_executor.island wraps tf.Exp %xt : tensor<f32>
    %b, %k3 = tf_executor.island wraps tf.Neg %xf : tensor<f32>
    %m, %k5 = tf_executor.Merge %a, %b : tensor<f32>
    tf_executor.fetch %m : tensor<f32>
  }
  return %r : tensor<f32>
}
// CHECK-NOT: tf_executor
// CHECK: "tf.IfRegion"(%arg0) ({
// CHECK: tf.Exp %arg1 : tensor<f32>
// CHECK: tf.Yield
// CHECK: }, {
// CHECK: tf.Neg %arg1 : tensor<f32>
