// Embedding kvant: errors are values, numbers are strong, memory is reserved before it is used.
#include <cstdio>

#include "kvant/base/checked.h"
#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/tensor/device.h"
#include "kvant/tensor/dtype.h"

namespace {

// Keys of one position: 8 heads of 64 numbers in f16.
constexpr kvant::Elements kElementsPerPosition{8 * 64};

kvant::Result<kvant::tensor::DeviceMemory> reserve_keys(kvant::Tokens context) {
  const kvant::Bytes row = KVANT_TRY(kvant::checked_bytes(
      kElementsPerPosition, kvant::tensor::bytes_of(kvant::tensor::Dtype::kF16)));
  const kvant::Bytes all =
      KVANT_TRY(kvant::checked_bytes(kvant::Elements(context.value()), row.value()));
  return kvant::tensor::host_device().reserve(all);
}

}  // namespace

int main() {
  // Address space for a million positions; memory follows only where rows are written.
  const auto keys = reserve_keys(kvant::Tokens(1'000'000));
  if (!keys) {
    std::fprintf(stderr, "%s\n", kvant::describe(keys.error()).c_str());
    return 1;
  }
  std::printf("reserved %lld bytes for keys\n", static_cast<long long>(keys->bytes().value()));

  // Too much of anything is an error that says what was asked for, never an abort.
  const auto too_many = reserve_keys(kvant::Tokens(1LL << 62));
  if (too_many) return 1;
  std::printf("refused: %s\n", kvant::describe(too_many.error()).c_str());
  return 0;
}
