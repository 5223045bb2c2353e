#include "kvant/kernels/dispatch.h"

#include <array>
#include <cfenv>
#include <limits>

#include "kvant/base/check.h"
#include "kvant/kernels/ref/kernels.h"
#if defined(KVANT_X86_TARGETS)
#include "kvant/kernels/avx2/kernels.h"
#include "kvant/kernels/avx512/kernels.h"
#endif

namespace kvant::kernels {
namespace {

#if defined(KVANT_X86_TARGETS)
constexpr std::array kTargets = {Target::kRef, Target::kAvx2, Target::kAvx512};

// The compiler's run-time check asks the operating system about the registers too.
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#else
constexpr std::array kTargets = {Target::kRef};

bool has_avx2() { return false; }
bool has_avx512() { return false; }
#endif

}  // namespace

bool is_available(Target target) {
  switch (target) {
    case Target::kRef:
      return true;
    case Target::kAvx2:
      return has_avx2();
    case Target::kAvx512:
      return has_avx512();
  }
  return false;
}

const KernelTable& table_of(Target target) {
  KVANT_CHECK(is_available(target));
#if defined(KVANT_X86_TARGETS)
  if (target == Target::kAvx2) return avx2::kTable;
  if (target == Target::kAvx512) return avx512::kTable;
#endif
  return ref::kTable;
}

std::span<const Target> all_targets() { return kTargets; }

const KernelTable& best_table() {
  for (std::size_t i = kTargets.size(); i-- > 1;) {
    if (is_available(kTargets[i])) return table_of(kTargets[i]);
  }
  return ref::kTable;
}

std::string_view name_of(Target target) {
  switch (target) {
    case Target::kRef:
      return "ref";
    case Target::kAvx2:
      return "avx2";
    case Target::kAvx512:
      return "avx512";
  }
  return "unknown";
}

Result<const KernelTable*> find_table(std::string_view name) {
  if (name == "auto") return &best_table();
  for (const Target target : {Target::kRef, Target::kAvx2, Target::kAvx512}) {
    if (name_of(target) != name) continue;
    if (!is_available(target)) return Error{.code = ErrorCode::kTargetUnavailable};
    return &table_of(target);
  }
  return Error{.code = ErrorCode::kInvalidArgument, .actual = name.size()};
}

Status check_floating_point_mode() {
  // volatile: the processor must do these sums, not the compiler.
  const volatile float least_normal = std::numeric_limits<float>::min();
  const volatile float subnormal = std::numeric_limits<float>::denorm_min();
  const float halved = least_normal * 0.5F;
  const float grown = subnormal * 0x1p+100F;
  if (std::fegetround() != FE_TONEAREST || halved == 0.0F || grown == 0.0F) {
    return Error{.code = ErrorCode::kUnsupported};
  }
  return ok();
}

}  // namespace kvant::kernels
