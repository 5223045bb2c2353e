// After the first token, decoding takes nothing from the heap. A program of its own, since it
// replaces operator new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "kvant/engine/session.h"

namespace {

std::atomic<std::int64_t> n_allocations{0};

void* counted(std::size_t bytes, std::size_t alignment) {
  n_allocations.fetch_add(1, std::memory_order_relaxed);
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* p = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

// Out of line, or g++ 12 sees free() where it expects operator delete and warns.
[[gnu::noinline]] void release(void* p) noexcept { std::free(p); }

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new[](std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
// Without these two, ASan's own answer to new (std::nothrow), which our delete must not release.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  n_allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  n_allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* p) noexcept { release(p); }
void operator delete[](void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t) noexcept { release(p); }
void operator delete(void* p, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { release(p); }

namespace kvant::engine {
namespace {

class DecodeAllocations : public testing::TestWithParam<SamplerOptions> {};

TEST_P(DecodeAllocations, AreNoneAfterTheFirstToken) {
  const auto model = model::load_model(std::string(KVANT_SOURCE_DIR) + "/tests/golden/lfm2");
  ASSERT_TRUE(model) << describe(model.error());
  auto session = Session::create(*model, *create_machine(2), {.context = Tokens(512)});
  ASSERT_TRUE(session);
  auto sampler = Sampler::create(GetParam(), (*model)->config.vocab_size);
  ASSERT_TRUE(sampler);
  ASSERT_TRUE((*session)->append(std::vector<TokenId>(100, 3)));

  std::int64_t n_tokens = 0;
  std::int64_t after_first = 0;
  const auto reason = (*session)->generate({.max_tokens = 400}, *sampler, [&](TokenId) {
    if (++n_tokens == 2) after_first = n_allocations.load();
    return true;
  });
  const std::int64_t at_end = n_allocations.load();
  ASSERT_TRUE(reason) << describe(reason.error());
  EXPECT_EQ(n_tokens, 400) << "the run must cross page borders";
  EXPECT_EQ(at_end - after_first, 0);
}

INSTANTIATE_TEST_SUITE_P(Samplers, DecodeAllocations,
                         testing::Values(SamplerOptions{},
                                         SamplerOptions{.temperature = 1.0,
                                                        .top_k = 20,
                                                        .top_p = 0.9,
                                                        .min_p = 0.01,
                                                        .repetition_penalty = 1.1}),
                         [](const auto& test) { return test.index == 0 ? "Greedy" : "Random"; });

}  // namespace
}  // namespace kvant::engine
