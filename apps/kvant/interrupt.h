// Ctrl-C while a reply is made stops the reply, not the program.
#pragma once

#include <signal.h>

#include "kvant/engine/session.h"

namespace kvant::app {

// While it lives, SIGINT cancels the session's work; afterwards the signal does what it did before.
// One at a time: a signal has one handler a process.
class InterruptGuard {
 public:
  explicit InterruptGuard(engine::Session& session);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  // Whether the signal came. A session clears its own mark when the next call starts; this one
  // stays.
  bool interrupted() const;

 private:
  struct sigaction before_ = {};
};

}  // namespace kvant::app
