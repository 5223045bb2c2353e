// A device over the host's memory that makes mistakes visible and fails on demand.
//
// What it reserves or takes back is filled with bytes that are a NaN in every element type, so a
// byte that is read before it was written shows up in any comparison. Its k-th call fails, once or
// from then on.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "kvant/tensor/device.h"

namespace kvant::test {

class TestDevice final : public tensor::Device {
 public:
  enum class Failing { kOnce, kFromThenOn };

  // Calls are numbered from 0, beginning now.
  void fail_call(std::int64_t k, Failing failing) {
    n_calls_ = 0;
    failing_call_ = k;
    failing_ = failing;
    n_failures_ = 0;
  }
  void stop_failing() { failing_call_ = -1; }
  std::int64_t n_failures() const { return n_failures_; }
  std::int64_t copied_bytes() const { return copied_bytes_; }
  // What reserve gives beyond what was asked for.
  void round_up_to(std::int64_t bytes) { granule_ = bytes; }

  const char* name() const override { return "test"; }

  Result<tensor::DeviceMemory> reserve(Bytes bytes) override {
    if (fails()) return failure(ErrorCode::kOutOfMemory, bytes);
    const Bytes rounded((bytes.value() + granule_ - 1) / granule_ * granule_);
    auto* data = static_cast<std::byte*>(std::aligned_alloc(64, (rounded.size() + 64) / 64 * 64));
    if (data == nullptr) return failure(ErrorCode::kOutOfMemory, bytes);
    std::memset(data, kNanByte, rounded.size());
    return tensor::DeviceMemory(this, data, rounded);
  }

  Status release(std::byte* data, Bytes bytes) override {
    if (fails()) return failure(ErrorCode::kDeviceFailed, bytes);
    std::memset(data, kNanByte, bytes.size());
    return ok();
  }

  Status copy(std::byte* to, const std::byte* from, Bytes bytes) override {
    if (fails()) return failure(ErrorCode::kCopyFailed, bytes);
    if (bytes.size() > 0) std::memcpy(to, from, bytes.size());
    copied_bytes_ += bytes.value();
    return ok();
  }

  Status fill(std::byte* to, std::int64_t n_floats, float value) override {
    if (fails()) return failure(ErrorCode::kInitialiseFailed, Bytes(n_floats * 4));
    for (std::int64_t i = 0; i < n_floats; ++i) std::memcpy(to + 4 * i, &value, sizeof(value));
    return ok();
  }

  Status synchronize() override {
    if (fails()) return failure(ErrorCode::kDeviceFailed, Bytes(0));
    return ok();
  }

 protected:
  void free(std::byte* data, Bytes) noexcept override { std::free(data); }

 private:
  static constexpr int kNanByte = 0xFF;

  bool fails() {
    const std::int64_t call = n_calls_++;
    const bool now = failing_call_ >= 0 &&
                     (failing_ == Failing::kOnce ? call == failing_call_ : call >= failing_call_);
    if (now) ++n_failures_;  // not written otherwise: threads share the device
    return now;
  }
  static Error failure(ErrorCode code, Bytes bytes) {
    return {.code = code, .cause = 5, .actual = static_cast<std::uint64_t>(bytes.value())};
  }

  std::atomic<std::int64_t> n_calls_{0};
  std::int64_t failing_call_ = -1;
  Failing failing_ = Failing::kOnce;
  std::atomic<std::int64_t> n_failures_{0};
  std::atomic<std::int64_t> copied_bytes_{0};
  std::int64_t granule_ = 1;
};

}  // namespace kvant::test
