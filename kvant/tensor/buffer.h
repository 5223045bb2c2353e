// An owning, fallible, 64-byte aligned array of numbers on the host. Move-only.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "kvant/base/checked.h"
#include "kvant/base/result.h"

namespace kvant::tensor {

template <class T>
  requires(std::is_trivially_copyable_v<T> && alignof(T) <= 64)
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  // n zeroed elements, all in memory at once (Device::reserve is the lazy one).
  // Errors: kOutOfMemory{actual: bytes requested, UINT64_MAX when they do not fit}.
  static Result<Buffer> create(Elements n) {
    const Bytes bytes = KVANT_TRY(checked_bytes(n, static_cast<std::int64_t>(sizeof(T))));
    const auto padded = checked_round_up<std::uint64_t>(bytes.size() + (bytes.size() == 0), 64);
    void* data = padded ? std::aligned_alloc(64, *padded) : nullptr;
    if (data == nullptr) {
      return Error{.code = ErrorCode::kOutOfMemory, .actual = bytes.size()};
    }
    Buffer buffer;
    buffer.data_.reset(static_cast<T*>(data));
    buffer.size_ = n.size();
    std::uninitialized_value_construct_n(buffer.data(), buffer.size_);
    return buffer;
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::span<T> span() { return {data(), size_}; }
  std::span<const T> span() const { return {data(), size_}; }
  T& operator[](std::size_t i) { return data_.get()[i]; }
  const T& operator[](std::size_t i) const { return data_.get()[i]; }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace kvant::tensor
