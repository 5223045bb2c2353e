#include <gtest/gtest.h>
#include "kvant/base/prng.h"
#include "kvant/base/thread_pool.h"
namespace kvant {
namespace {
TEST(ThreadPool, EveryTaskRunsOnce) {
  auto pool = ThreadPool::create(3);
  ASSERT_TRUE(pool);
  for (int round = 0; round < 200; ++round) {
    std::vector<int> seen(97, 0);
    (*pool)->run(97, [&](std::int64_t i, int) { ++seen[static_cast<std::size_t>(i)]; });
    for (int n : seen) ASSERT_EQ(n, 1);
  }
}
TEST(Prng, GoldenSeeds) {
  Xoshiro256 x(42);
  EXPECT_EQ(x.next(), 0x15780b2e0c2ec716u);
  EXPECT_EQ(x.next(), 0x6104d9866d113a7eu);
}
}  // namespace
}  // namespace kvant
