#include "kvant/base/thread_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace kvant {
namespace {

std::unique_ptr<ThreadPool> pool_of(int n_threads) {
  auto pool = ThreadPool::create(n_threads);
  EXPECT_TRUE(pool) << describe(pool.error());
  return std::move(pool).value();
}

class ThreadPoolOfSize : public ::testing::TestWithParam<int> {};

// The counts are plain integers: a second call of one index, or a call that has not finished when
// run returns, is a race that ThreadSanitizer reports too.
TEST_P(ThreadPoolOfSize, CallsEachIndexOnceAndReturnsWhenAllAreDone) {
  const auto pool = pool_of(GetParam());
  EXPECT_EQ(pool->n_threads(), GetParam());
  for (int round = 0; round < 100; ++round) {
    for (const std::int64_t n : {0, 1, 2, 3, 7, 64, 97}) {
      std::vector<int> calls(static_cast<std::size_t>(n), 0);
      pool->run(n, [&](std::int64_t i, int) { ++calls[static_cast<std::size_t>(i)]; });
      for (const int count : calls) ASSERT_EQ(count, 1);
    }
  }
}

TEST_P(ThreadPoolOfSize, WorkersOfOneRunAreTellApartByTheirNumber) {
  const auto pool = pool_of(GetParam());
  const auto n_workers = static_cast<std::size_t>(GetParam());
  std::vector<std::atomic<bool>> inside(n_workers);
  std::atomic<int> faults{0};
  for (int round = 0; round < 50; ++round) {
    pool->run(64, [&](std::int64_t, int worker) {
      if (worker < 0 || worker >= GetParam()) {
        ++faults;
        return;
      }
      std::atomic<bool>& mine = inside[static_cast<std::size_t>(worker)];
      if (mine.exchange(true)) ++faults;
      mine.store(false);
    });
  }
  EXPECT_EQ(faults, 0);
}

INSTANTIATE_TEST_SUITE_P(OneToEight, ThreadPoolOfSize, ::testing::Range(1, 9));

TEST(ThreadPool, RefusesSizesOutOfRange) {
  for (const int n : {0, -1, 1025, std::numeric_limits<int>::min()}) {
    const auto pool = ThreadPool::create(n);
    ASSERT_FALSE(pool) << n;
    EXPECT_EQ(pool.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(pool.error().expected, 1024U);
  }
}

// Tasks of the first run wait for each other: they finish only if two threads share the work.
TEST(ThreadPool, TwoThreadsWorkAtTheSameTime) {
  const auto pool = pool_of(2);
  std::atomic<int> arrived{0};
  pool->run(2, [&](std::int64_t, int) {
    ++arrived;
    while (arrived.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
}

TEST(ThreadPool, ACallerWhoFindsItBusyWorksAlone) {
  const auto pool = pool_of(2);
  std::atomic<int> arrived{0};
  std::atomic<bool> release{false};
  // Both threads of the pool are held until the second caller is through.
  std::jthread first([&] {
    pool->run(2, [&](std::int64_t, int) {
      ++arrived;
      while (!release.load()) std::this_thread::yield();
    });
  });
  while (arrived.load() < 2) std::this_thread::yield();
  std::set<std::thread::id> threads;
  std::set<int> workers;
  pool->run(10, [&](std::int64_t, int worker) {
    threads.insert(std::this_thread::get_id());
    workers.insert(worker);
  });
  release = true;
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
  EXPECT_EQ(workers, std::set{0});
}

TEST(ThreadPool, ATaskThatUsesItsOwnPoolWorksAloneInsteadOfWaiting) {
  const auto pool = pool_of(3);
  std::atomic<int> calls{0};
  pool->run(8, [&](std::int64_t, int) { pool->run(5, [&](std::int64_t, int) { ++calls; }); });
  EXPECT_EQ(calls, 40);
}

TEST(ThreadPool, ConcurrentCallersEachGetAllTheirTasks) {
  const auto pool = pool_of(3);
  std::array<std::int64_t, 4> sums{};
  {
    std::vector<std::jthread> callers;
    for (std::int64_t& sum : sums) {
      callers.emplace_back([&pool, &sum] {
        for (int round = 0; round < 300; ++round) {
          std::array<std::int64_t, 40> squares{};
          pool->run(40, [&](std::int64_t i, int) { squares[static_cast<std::size_t>(i)] = i * i; });
          for (const std::int64_t square : squares) sum += square;
        }
      });
    }
  }
  for (const std::int64_t sum : sums) EXPECT_EQ(sum, 300 * 20540);  // 39 * 40 * 79 / 6
}

TEST(ThreadPool, StopsWhetherOrNotItEverWorked) {
  for (int round = 0; round < 100; ++round) {
    const auto idle = pool_of(3);
    const auto used = pool_of(3);
    int calls = 0;
    used->run(1, [&](std::int64_t, int) { ++calls; });
    used->run(3, [&](std::int64_t, int) {});
    EXPECT_EQ(calls, 1);
  }
}

TEST(ThreadPool, TheMachineHasAtLeastOneCoreAndNoMoreThanProcessors) {
  EXPECT_GE(n_physical_cores(), 1);
  EXPECT_LE(n_physical_cores(), static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace kvant
