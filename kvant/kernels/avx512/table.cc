#include "kvant/kernels/avx512/kernels.h"

namespace kvant::kernels::avx512 {

constinit const KernelTable kTable = {.target = Target::kAvx512,
                                      .name = "avx512",
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

}  // namespace kvant::kernels::avx512
