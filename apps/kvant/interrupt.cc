#include "apps/kvant/interrupt.h"

#include <atomic>

#include "kvant/base/check.h"

namespace kvant::app {
namespace {

// A signal handler has no other way to its object.
std::atomic<engine::Session*> running_session{nullptr};
std::atomic<bool> signal_came{false};
static_assert(std::atomic<engine::Session*>::is_always_lock_free &&
              std::atomic<bool>::is_always_lock_free);

extern "C" void on_interrupt(int) {
  signal_came.store(true, std::memory_order_relaxed);
  if (auto* session = running_session.load(std::memory_order_relaxed)) session->cancel();
}

}  // namespace

InterruptGuard::InterruptGuard(engine::Session& session) {
  KVANT_CHECK(running_session.load() == nullptr);
  signal_came.store(false);
  running_session.store(&session);
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;  // a reply's text that is being written goes out whole
  ::sigaction(SIGINT, &action, &before_);
}

InterruptGuard::~InterruptGuard() {
  ::sigaction(SIGINT, &before_, nullptr);
  running_session.store(nullptr);
}

bool InterruptGuard::interrupted() const { return signal_came.load(std::memory_order_relaxed); }

}  // namespace kvant::app
