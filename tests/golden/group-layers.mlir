// RUN: tpuc opt %S/two-layers.mlir --chip bm1684x --pass convert-top-to-tpu --pass group-layers
// What the first convolution gives stays in local memory for the second one, which writes back what it gives.
// CHECK: "tpu.Conv2D"{{.*}}resident_out = [0]{{.*}}tiling = {c = 2 : i64, h = 2 : i64, k = 2 : i64, n = 1 : i64, w = 2 : i64}{{.*}}written_back = []
// CHECK: "tpu.Conv2D"{{.*}}resident_in = [0]{{.*}}tiling = {c = 2 : i64, h = 2 : i64, k = 2 : i64, n = 1 : i64, w = 2 : i64}{{.*}}written_back = [0]
