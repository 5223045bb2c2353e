// The seam to the clock: figures only. Nothing that shapes state, logits or text may ask the time.
#pragma once

#include <chrono>

namespace kvant {

class Stopwatch {
 public:
  Stopwatch() : start_(std::chrono::steady_clock::now()) {}
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_;
};

}  // namespace kvant
