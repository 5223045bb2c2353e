#include "kvant/base/thread_pool.h"

#include <sched.h>

#include <fstream>
#include <new>
#include <set>
#include <string>
#include <system_error>

namespace kvant {
namespace {

// 20 to 200 microseconds of spinning (a pause takes 10 to 140 cycles, by processor): longer than
// the gap between two parallel parts of a decode step, short enough that an idle program costs
// nothing.
constexpr int kSpins = 4000;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(int n_threads) {
  constexpr int kMostThreads = 1024;
  if (n_threads < 1 || n_threads > kMostThreads) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .actual = static_cast<std::uint64_t>(n_threads),
                 .expected = kMostThreads};
  }
  try {
    std::unique_ptr<ThreadPool> pool(new ThreadPool);
    for (int i = 1; i < n_threads; ++i) {
      pool->workers_.emplace_back([p = pool.get(), i] { p->work(i); });
    }
    return pool;
  } catch (const std::system_error& failure) {
    return Error{.code = ErrorCode::kThreadFailed, .cause = failure.code().value()};
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory, .actual = sizeof(ThreadPool)};
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  workers_.clear();  // joins, while the members that the threads still read are alive
}

void ThreadPool::take_tasks(int worker) {
  for (;;) {
    const std::int64_t task = next_task_.fetch_add(1, std::memory_order_relaxed);
    if (task >= n_tasks_) return;
    call_(context_, task, worker);
  }
}

void ThreadPool::work(int worker) {
  std::uint32_t seen = 0;
  for (;;) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (generation_.load(std::memory_order_acquire) != seen) break;
      pause_briefly();
    }
    generation_.wait(seen, std::memory_order_acquire);
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (!enter()) continue;
    take_tasks(worker);
    leave();
  }
}

bool ThreadPool::enter() {
  std::uint32_t entrants = entrants_.load(std::memory_order_relaxed);
  do {
    if ((entrants & kClosed) != 0) return false;
  } while (!entrants_.compare_exchange_weak(entrants, entrants + 1, std::memory_order_acquire,
                                            std::memory_order_relaxed));
  return true;
}

void ThreadPool::leave() {
  if (entrants_.fetch_sub(1, std::memory_order_release) == kClosed + 1) entrants_.notify_all();
}

void ThreadPool::run_erased(std::int64_t n_tasks, const void* context, Call call) {
  if (n_tasks <= 1 || workers_.empty() || busy_.exchange(true, std::memory_order_acquire)) {
    for (std::int64_t task = 0; task < n_tasks; ++task) call(context, task, 0);
    return;
  }
  call_ = call;
  context_ = context;
  n_tasks_ = n_tasks;
  next_task_.store(0, std::memory_order_relaxed);
  entrants_.store(0, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  take_tasks(0);
  entrants_.fetch_or(kClosed, std::memory_order_relaxed);
  wait_until_empty();
  busy_.store(false, std::memory_order_release);
}

void ThreadPool::wait_until_empty() {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (entrants_.load(std::memory_order_acquire) == kClosed) return;
    pause_briefly();
  }
  for (std::uint32_t inside = entrants_.load(std::memory_order_acquire); inside != kClosed;
       inside = entrants_.load(std::memory_order_acquire)) {
    entrants_.wait(inside, std::memory_order_acquire);
  }
}

int n_physical_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 1;
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(static_cast<std::size_t>(cpu), &allowed)) continue;
    std::ifstream siblings("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                           "/topology/thread_siblings_list");
    std::string line;
    if (!std::getline(siblings, line)) line = std::to_string(cpu);
    cores.insert(line);
  }
  return cores.empty() ? 1 : static_cast<int>(cores.size());
}

}  // namespace kvant
