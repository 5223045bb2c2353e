// In a file of its own: where a compiler sees both free() and a caller of operator new, it warns of
// a mismatch that is none.
#include "tests/support/counting_new.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> n_calls{0};
std::atomic<std::int64_t> failing_call{-1};

void* counted(std::size_t bytes, std::size_t alignment) noexcept {
  if (n_calls.fetch_add(1, std::memory_order_relaxed) == failing_call.load()) return nullptr;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
}

void* counted_or_throw(std::size_t bytes, std::size_t alignment) {
  if (void* data = counted(bytes, alignment)) return data;
  throw std::bad_alloc();
}

constexpr std::size_t kUsual = alignof(std::max_align_t);

}  // namespace

std::int64_t kvant::test::n_allocations() { return n_calls.load(); }

void kvant::test::fail_allocation(std::int64_t k) {
  failing_call.store(k < 0 ? -1 : n_calls.load() + k);
}

void* operator new(std::size_t bytes) { return counted_or_throw(bytes, kUsual); }
void* operator new[](std::size_t bytes) { return counted_or_throw(bytes, kUsual); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return counted_or_throw(bytes, static_cast<std::size_t>(alignment));
}
// Without these two, ASan's own answer to new (std::nothrow), which our delete must not release.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes, kUsual);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes, kUsual);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
