// RUN: tpuc opt %s --pass tf-prune --pass tf-fold-islands --pass tf-coarsen-islands
// What the fetch does not need goes, a constant stays dead with its branch, and islands in a row become one.
func.func @main(%p: tensor<i1>, %x: tensor<i32>) -> tensor<i32> {
  %r = tf_executor.graph : tensor<i32> {
    %unused, %k0 = tf_executor.island wraps tf.Abs %x : tensor<i32>
    %xt, %xf, %k1 = tf_executor.Switch %p, %x : tensor<i32>
    %zero, %k2 = tf_executor.island wraps tf.Sub %xt, %xt : tensor<i32>
    %minus, %k3 = tf_executor.island wraps tf.Neg %xf : tensor<i32>
    %square, %k4 = tf_executor.island wraps tf.Square %minus : tensor<i32>
    %m, %k5 = tf_executor.Merge %zero, %square : tensor<i32>
    tf_executor.fetch %m : tensor<i32>
  }
  return %r : tensor<i32>
}
// CHECK-NOT: tf.Abs
// CHECK-NOT: tf.Sub
// CHECK: tf.Identity
// CHECK: tf.Const {value = dense<0> : tensor<i32>} : () -> tensor<i32>
// CHECK: tf_executor.island {
// CHECK: tf.Neg
// CHECK: tf.Square
// CHECK: tf_executor.Merge
