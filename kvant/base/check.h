// KVANT_CHECK aborts on a broken invariant of our own, never on input, files, memory or devices.
// KVANT_DCHECK does so in builds without NDEBUG only.
#pragma once

namespace kvant {

// Prints `file:line: broken invariant: condition` to stderr and aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line) noexcept;

}  // namespace kvant

#define KVANT_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::kvant::check_failed(#condition, __FILE__, __LINE__))

#ifdef NDEBUG
#define KVANT_DCHECK(condition) static_cast<void>(sizeof(!(condition)))
#else
#define KVANT_DCHECK(condition) KVANT_CHECK(condition)
#endif
