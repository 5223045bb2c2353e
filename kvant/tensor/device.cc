#include "kvant/tensor/device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace kvant::tensor {
namespace {

class HostDevice final : public Device {
 public:
  const char* name() const override { return "cpu"; }

  Result<DeviceMemory> reserve(Bytes bytes) override {
    if (bytes.value() < 0) {
      return Error{.code = ErrorCode::kOutOfMemory, .actual = static_cast<std::uint64_t>(-1)};
    }
    if (bytes.value() == 0) return DeviceMemory(this, nullptr, bytes);
    void* data = ::mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) {
      return Error{.code = ErrorCode::kOutOfMemory,
                   .cause = errno,
                   .actual = static_cast<std::uint64_t>(bytes.value())};
    }
    return DeviceMemory(this, static_cast<std::byte*>(data), bytes);
  }

  Status release(std::byte* data, Bytes bytes) override {
    if (bytes.value() <= 0) return ok();
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    const std::uintptr_t end = begin + bytes.size();
    const std::uintptr_t whole_begin = std::min(end, (begin + page - 1) / page * page);
    const std::uintptr_t whole_end = std::max(whole_begin, end / page * page);
    std::memset(data, 0, whole_begin - begin);
    std::memset(data + (whole_end - begin), 0, end - whole_end);
    if (whole_end > whole_begin &&
        ::madvise(data + (whole_begin - begin), whole_end - whole_begin, MADV_DONTNEED) != 0) {
      std::memset(data + (whole_begin - begin), 0, whole_end - whole_begin);
    }
    return ok();
  }

  Status copy(std::byte* to, const std::byte* from, Bytes bytes) override {
    if (bytes.value() > 0) std::memcpy(to, from, bytes.size());
    return ok();
  }

  Status fill(std::byte* to, std::int64_t n_floats, float value) override {
    if (n_floats > 0) std::fill_n(reinterpret_cast<float*>(to), n_floats, value);
    return ok();
  }

  Status synchronize() override { return ok(); }

 protected:
  void free(std::byte* data, Bytes bytes) noexcept override {
    if (data != nullptr) ::munmap(data, bytes.size());
  }
};

}  // namespace

void DeviceMemory::give_back() noexcept {
  if (device_ != nullptr) device_->free(data_, bytes_);
  device_ = nullptr;
}

Device& host_device() {
  static auto* device = new HostDevice;  // outlives every state, also at exit
  return *device;
}

}  // namespace kvant::tensor
