// RUN: not tpuc opt %S/two-layers.mlir --chip bm1684x --pass plan-functions
// RUN: tpuc opt %S/two-layers.mlir --chip c --quantize f32 --pass convert-top-to-tpu --pass plan-functions
// Only kernels that are functions need the plan, and it leaves the module as it is.
// CHECK: pass 'plan-functions' is for chips of functions only, and 'bm1684x' is not one
// CHECK: "tpu.Conv2D"
// CHECK: "tpu.Conv2D"
