// RUN: not tpuc opt %S/two-layers.mlir --chip bm1684x --pass generate-code
// RUN: tpuc deploy --mlir %S/two-layers.mlir --chip bm1684x --quantize f32 -o %t.bmodel
// RUN: tpuc disasm %t.bmodel
// Without addresses there is no code; with them two convolutions, the first one's relu, and what they load and store.
// CHECK: the module has no addresses: run the pass assign-addresses before generate-code
// CHECK: 4 compute and 5 DMA commands
// CHECK: conv.normal
// CHECK-NEXT: ar.max{{.*}}right=0.0:f32
// CHECK-NEXT: conv.normal
// CHECK-NEXT: sys.end
// CHECK: dma.copy source=0x100006000 destination=lmem
// CHECK: dma.copy source=lmem{{.*}}destination=0x100006000
// CHECK-NEXT: dma.end
