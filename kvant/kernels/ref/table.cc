#include "kvant/kernels/ref/kernels.h"

namespace kvant::kernels::ref {

constinit const KernelTable kTable = {.target = Target::kRef,
                                      .name = "ref",
                                      .matmul = matmul,
                                      .pack_activations = pack_activations,
                                      .rms_norm = rms_norm,
                                      .rope = rope,
                                      .silu_mul = silu_mul,
                                      .add = add,
                                      .softmax = softmax,
                                      .exp32 = exp32,
                                      .widen = widen,
                                      .narrow = narrow,
                                      .attention = attention,
                                      .short_conv = short_conv};

}  // namespace kvant::kernels::ref
