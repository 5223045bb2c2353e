#include "kvant/tensor/device.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace kvant::tensor {
namespace {

Bytes os_page() { return Bytes(::sysconf(_SC_PAGESIZE)); }

DeviceMemory reserved(Bytes bytes) {
  auto memory = host_device().reserve(bytes);
  EXPECT_TRUE(memory) << describe(memory.error());
  return std::move(memory).value();
}

// How many pages of the operating system stand behind a reservation.
std::int64_t resident_pages(const DeviceMemory& memory) {
  const std::size_t page = os_page().size();
  std::vector<unsigned char> resident((memory.bytes().size() + page - 1) / page);
  EXPECT_EQ(::mincore(memory.data(), memory.bytes().size(), resident.data()), 0);
  return std::count_if(resident.begin(), resident.end(), [](auto r) { return (r & 1) != 0; });
}

bool all_are(std::span<const std::byte> bytes, std::byte value) {
  return std::all_of(bytes.begin(), bytes.end(), [&](std::byte b) { return b == value; });
}

TEST(HostDevice, IsCalledCpu) { EXPECT_STREQ(host_device().name(), "cpu"); }

TEST(HostDevice, ReservesAtLeastWhatWasAskedZeroedAndAligned) {
  for (const std::int64_t n : {1, 63, 4096, 4097, 100000}) {
    const DeviceMemory memory = reserved(Bytes(n));
    EXPECT_GE(memory.bytes(), Bytes(n));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 64, 0U);
    EXPECT_TRUE(all_are(memory.span(), std::byte{0}));
  }
}

TEST(HostDevice, ReservationsCostMemoryOnlyWhereWritten) {
  const DeviceMemory memory = reserved(Bytes(std::int64_t{1} << 30));
  EXPECT_EQ(resident_pages(memory), 0);
  // One byte in each of three far places. A huge page may come with it: 512 small ones.
  for (const std::size_t at : {std::size_t{0}, std::size_t{1} << 28, std::size_t{1} << 29}) {
    memory.data()[at] = std::byte{1};
  }
  EXPECT_GE(resident_pages(memory), 3);
  EXPECT_LE(resident_pages(memory), 3 * 512);
}

TEST(HostDevice, ZeroBytesAreNothingAndNoError) {
  DeviceMemory memory = reserved(Bytes(0));
  EXPECT_EQ(memory.data(), nullptr);
  EXPECT_TRUE(host_device().release(nullptr, Bytes(0)));
  EXPECT_TRUE(host_device().copy(nullptr, nullptr, Bytes(0)));
  EXPECT_TRUE(host_device().fill(nullptr, 0, 1.0F));
}

TEST(HostDevice, RefusesWhatDoesNotFitTheAddressSpace) {
  for (const std::int64_t n : {std::numeric_limits<std::int64_t>::max(), std::int64_t{1} << 60}) {
    const auto memory = host_device().reserve(Bytes(n));
    ASSERT_FALSE(memory);
    EXPECT_EQ(memory.error().code, ErrorCode::kOutOfMemory);
    EXPECT_EQ(memory.error().actual, static_cast<std::uint64_t>(n));
  }
  const auto negative = host_device().reserve(Bytes(-1));
  ASSERT_FALSE(negative);
  EXPECT_EQ(negative.error().actual, std::numeric_limits<std::uint64_t>::max());
}

TEST(HostDevice, ReleasedBytesReadAsZeroAndGiveTheirMemoryBack) {
  const std::size_t page = os_page().size();
  const DeviceMemory memory = reserved(Bytes(static_cast<std::int64_t>(16 * page)));
  std::memset(memory.data(), 0xAB, 16 * page);
  EXPECT_EQ(resident_pages(memory), 16);
  ASSERT_TRUE(host_device().release(memory.data() + 4 * page, os_page() * 8));
  EXPECT_EQ(resident_pages(memory), 8);
  EXPECT_TRUE(all_are(memory.span().subspan(4 * page, 8 * page), std::byte{0}));
  EXPECT_TRUE(all_are(memory.span().first(4 * page), std::byte{0xAB}));
  EXPECT_TRUE(all_are(memory.span().subspan(12 * page), std::byte{0xAB}));
}

// Ends inside pages of the operating system, on their borders and one beside, and within one page.
TEST(HostDevice, ReleaseClearsExactlyItsRangeAtRaggedEnds) {
  const std::size_t page = os_page().size();
  const std::size_t ends[] = {0, 1, page - 1, page, page + 1, 2 * page, 3 * page - 1, 4 * page};
  const DeviceMemory memory = reserved(os_page() * 4);
  for (const std::size_t begin : ends) {
    for (const std::size_t end : ends) {
      if (end < begin) continue;
      std::memset(memory.data(), 0xAB, 4 * page);
      const auto bytes = Bytes(static_cast<std::int64_t>(end - begin));
      ASSERT_TRUE(host_device().release(memory.data() + begin, bytes));
      EXPECT_TRUE(all_are(memory.span().first(begin), std::byte{0xAB})) << begin << " " << end;
      EXPECT_TRUE(all_are(memory.span().subspan(begin, end - begin), std::byte{0}));
      EXPECT_TRUE(all_are(memory.span().subspan(end), std::byte{0xAB})) << begin << " " << end;
    }
  }
}

TEST(HostDevice, CopiesAndFillsWhatItIsTold) {
  const DeviceMemory from = reserved(Bytes(64));
  const DeviceMemory to = reserved(Bytes(64));
  ASSERT_TRUE(host_device().fill(from.data(), 8, -1.5F));
  ASSERT_TRUE(host_device().copy(to.data(), from.data(), Bytes(32)));
  ASSERT_TRUE(host_device().synchronize());
  std::array<float, 9> floats{};
  std::memcpy(floats.data(), to.data(), sizeof(floats));
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(floats[i], -1.5F);
  EXPECT_EQ(floats[8], 0.0F);
}

TEST(DeviceMemory, MovesWithoutGivingBackTwice) {
  DeviceMemory first = reserved(Bytes(100));
  DeviceMemory second = reserved(Bytes(200));
  std::byte* const data = second.data();
  data[0] = std::byte{9};
  first = std::move(second);
  EXPECT_EQ(first.data(), data);
  EXPECT_EQ(first.data()[0], std::byte{9});
  EXPECT_TRUE(second.span().empty());  // NOLINT(bugprone-use-after-move): that is the question
  const DeviceMemory third(std::move(first));
  EXPECT_EQ(third.data(), data);
}

// A device that counts, to see that every reservation is given back exactly once.
class CountingDevice final : public Device {
 public:
  const char* name() const override { return "counting"; }
  Result<DeviceMemory> reserve(Bytes bytes) override {
    ++live;
    return DeviceMemory(this, &byte_, bytes);
  }
  Status release(std::byte*, Bytes) override { return ok(); }
  Status copy(std::byte*, const std::byte*, Bytes) override { return ok(); }
  Status fill(std::byte*, std::int64_t, float) override { return ok(); }
  Status synchronize() override { return ok(); }

  int live = 0;

 protected:
  void free(std::byte*, Bytes) noexcept override { --live; }

 private:
  std::byte byte_{};
};

TEST(DeviceMemory, EveryReservationIsGivenBackOnce) {
  CountingDevice device;
  {
    auto first = device.reserve(Bytes(1));
    auto second = device.reserve(Bytes(1));
    ASSERT_TRUE(first && second);
    EXPECT_EQ(device.live, 2);
    DeviceMemory memory = std::move(*first);
    memory = std::move(*second);
    EXPECT_EQ(device.live, 1);
    DeviceMemory& same = memory;
    memory = std::move(same);
    EXPECT_EQ(device.live, 1);
  }
  EXPECT_EQ(device.live, 0);
}

}  // namespace
}  // namespace kvant::tensor
