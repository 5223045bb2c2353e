#include "kvant/base/system_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace kvant {
namespace {

TEST(SystemMemory, IsPositiveAndAtMostWhatTheMachineHas) {
  const auto pages = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES));
  EXPECT_GT(physical_memory(), Bytes(0));
  EXPECT_LE(physical_memory(), Bytes(pages * ::sysconf(_SC_PAGESIZE)));
}

class KernelFigure : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "kvant_figures_XXXXXX";
    const int fd = ::mkstemp(path_.data());
    ASSERT_GE(fd, 0);
    const std::string text =
        "Name:\tkvant\nVmHWMark:\t7 kB\nVmHWM:\t   1234 kB\nEmpty:\nWord:\tmany kB\n";
    ASSERT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::close(fd);
  }
  void TearDown() override { std::remove(path_.c_str()); }

  std::string path_;
};

TEST_F(KernelFigure, IsReadInBytesFromTheLineOfThatName) {
  EXPECT_EQ(kernel_figure(path_.c_str(), "VmHWM"), Bytes(1234 * 1024));
  EXPECT_EQ(kernel_figure(path_.c_str(), "VmHWMark"), Bytes(7 * 1024));
}

TEST_F(KernelFigure, IsZeroWhereThereIsNone) {
  for (const char* name : {"VmRSS", "Vm", "Empty", "Word"}) {
    EXPECT_EQ(kernel_figure(path_.c_str(), name), Bytes(0)) << name;
  }
  EXPECT_EQ(kernel_figure((path_ + ".none").c_str(), "VmHWM"), Bytes(0));
}

TEST_F(KernelFigure, TheKernelTellsThisProcessesPeak) {
  EXPECT_GT(kernel_figure("/proc/self/status", "VmHWM"), Bytes(0));
}

}  // namespace
}  // namespace kvant
