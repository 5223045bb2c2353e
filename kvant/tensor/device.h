// The seam to a device's memory.
//
// State and scratch never take memory, copy it or wait for it but through a Device, so that a GPU
// can follow. On the host a device pointer is a plain pointer, copies are memcpy and synchronize
// returns at once.
//
// A Reservation is address space with an upper bound; pages get memory when first written (lazy),
// so a plan for a million positions costs only what is used. Freshly reserved and released bytes
// read as zero.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "kvant/base/result.h"
#include "kvant/base/units.h"

namespace kvant::tensor {

class Device;

// Memory of a device; gives it back when destroyed. Move-only.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(Device* device, std::byte* data, Bytes bytes)
      : device_(device), data_(data), bytes_(bytes) {}
  DeviceMemory(DeviceMemory&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, Bytes(0))) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    if (this != &other) {
      give_back();
      device_ = std::exchange(other.device_, nullptr);
      data_ = std::exchange(other.data_, nullptr);
      bytes_ = std::exchange(other.bytes_, Bytes(0));
    }
    return *this;
  }
  ~DeviceMemory() { give_back(); }

  std::byte* data() const { return data_; }
  // What the device really gave, at least what was asked for.
  Bytes bytes() const { return bytes_; }
  std::span<std::byte> span() const { return {data_, bytes_.size()}; }

 private:
  void give_back() noexcept;

  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  Bytes bytes_{0};
};

// Threads: every function may be called from any thread.
class Device {
 public:
  virtual ~Device() = default;

  // "cpu", later "cuda". Part of the numerics id.
  virtual const char* name() const = 0;

  // Zeroed memory aligned to at least 64 bytes, lazily committed where the device can.
  // Errors: kOutOfMemory{actual: bytes} when the address space or the device refuses; nothing
  // changed.
  virtual Result<DeviceMemory> reserve(Bytes bytes) = 0;

  // Gives the memory behind part of a reservation back; it reads as zero afterwards. Whole pages of
  // the operating system only: bytes at ragged ends are set to zero instead. 0 bytes: nothing.
  // Errors: kDeviceFailed{cause}; the bytes are then unspecified.
  virtual Status release(std::byte* data, Bytes bytes) = 0;

  // The two ranges must not overlap. 0 bytes copy nothing, whatever the pointers.
  // Errors: kCopyFailed{actual: bytes, cause}; the destination's bytes are then unspecified.
  virtual Status copy(std::byte* to, const std::byte* from, Bytes bytes) = 0;

  // Sets n floats at `to`, aligned to 4 bytes, to `value`. Errors: kInitialiseFailed{cause}; the
  // floats are then unspecified.
  virtual Status fill(std::byte* to, std::int64_t n_floats, float value) = 0;

  // Returns when all work submitted so far has finished. Errors: kDeviceFailed{cause}.
  virtual Status synchronize() = 0;

 protected:
  friend class DeviceMemory;
  virtual void free(std::byte* data, Bytes bytes) noexcept = 0;
};

// The host's memory. One object for the process; never destroyed.
Device& host_device();

}  // namespace kvant::tensor
