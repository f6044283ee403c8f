// RUN: tpuc opt %S/two-layers.mlir --chip bm1684x --pass import-calibration-table{file=%S/two-layers.table} --pass convert-top-to-tpu --pass subnet-divide --pass weight-reorder --pass layer-group --pass address-assign --pass codegen{model_file=%t.bmodel} -o %t.mlir
// RUN: tpuc disasm %t.bmodel
// The names that TPU-MLIR's passes have lead from the network to the compiled file.
// CHECK: 4 compute and 5 DMA commands
// CHECK: conv.normal
// CHECK: sys.end
