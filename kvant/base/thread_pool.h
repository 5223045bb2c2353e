// One pool of threads for all numeric work.
//
// run(n, task) calls task(0, w) ... task(n - 1, w), each index once, on the pool's threads and the
// caller's, and returns when all are done. `w` in [0, n_threads) tells apart the threads of one
// run, for scratch memory; the caller is worker 0. Which thread runs which task is left open: a
// task's result must depend on its index alone (docs/numerics.md), so no result depends on the
// thread count.
//
// A caller who finds the pool busy with another caller's work runs its own tasks alone, as worker
// 0, instead of waiting: any number of sessions may share a pool and none can block another. The
// same happens to a task that calls run on its own pool. A task must not throw.
//
// Idle threads spin for some microseconds (a decode step has a hundred short parallel parts), then
// sleep.
//
// Rejected: a mutex held by the running caller. A task calling run would lock it twice on one
// thread, which a std::mutex leaves undefined even for try_lock.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "kvant/base/result.h"

namespace kvant {

class ThreadPool {
 public:
  // A pool that works with `n_threads` threads, the caller of run being one; 1 starts none.
  // Errors: kInvalidArgument{actual: n_threads, expected: the most} for less than 1 or more than
  // 1024; kThreadFailed{cause}, kOutOfMemory: none is left running.
  static Result<std::unique_ptr<ThreadPool>> create(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Threads: any number of callers. Allocates nothing.
  template <std::invocable<std::int64_t, int> Task>
  void run(std::int64_t n_tasks, const Task& task) {
    run_erased(n_tasks, &task, [](const void* context, std::int64_t index, int worker) noexcept {
      (*static_cast<const Task*>(context))(index, worker);
    });
  }

 private:
  // noexcept: unwinding out of a task would leave other threads inside a job that is gone.
  using Call = void (*)(const void* context, std::int64_t index, int worker) noexcept;

  ThreadPool() = default;
  void run_erased(std::int64_t n_tasks, const void* context, Call call);
  void work(int worker);
  void take_tasks(int worker);
  bool enter();
  void leave();
  void wait_until_empty();

  std::vector<std::jthread> workers_;
  std::atomic<bool> busy_{false};  // true while some caller's job is running; that caller owns it

  // The running job: written by the owner while entrants_ is kClosed alone.
  Call call_ = nullptr;
  const void* context_ = nullptr;
  std::int64_t n_tasks_ = 0;
  std::atomic<std::int64_t> next_task_{0};
  // Workers inside the running job, and kClosed when no further one may enter. The caller never
  // waits for a thread that has not entered: one that wakes late finds the job closed.
  static constexpr std::uint32_t kClosed = 1U << 31;
  std::atomic<std::uint32_t> entrants_{kClosed};
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<bool> stop_{false};
};

// Cores of this machine that this process may use, hyper-threads of one core counted once where
// the system tells; at least 1.
int n_physical_cores();

}  // namespace kvant
