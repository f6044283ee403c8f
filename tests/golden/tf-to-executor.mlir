// RUN: tpuc opt %s --pass tf-to-executor
// What a region captures passes a Switch, and its result a Merge.
func.func @main(%p: tensor<i1>, %x: tensor<f32>) -> tensor<f32> {
  %0 = "tf.IfRegion"(%p) ({
    %1 = tf.Exp %x : tensor<f32>
    "tf.Yield"(%1) : (tensor<f32>) -> ()
  }, {
    %1 = tf.Neg %x : tensor<f32>
    "tf.Yield"(%1) : (tensor<f32>) -> ()
  }) : (tensor<i1>) -> tensor<f32>
  return %0 : tensor<f32>
}
// CHECK-NOT: tf.IfRegion
// CHECK: tf_executor.graph : tensor<f32> {
// CHECK: tf_executor.Switch %arg0, %arg1 : tensor<f32>
// CHECK: wraps tf.Exp
// CHECK: tf_executor.Switch %arg0, %arg1 : tensor<f32>
// CHECK: wraps tf.Neg
// CHECK: tf_executor.Merge
// CHECK: tf_executor.fetch
