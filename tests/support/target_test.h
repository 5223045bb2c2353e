// Tests that run once for each kernel target.
#pragma once

#include <gtest/gtest.h>

#include "kvant/kernels/dispatch.h"

namespace kvant::test {

class TargetTest : public ::testing::TestWithParam<kernels::Target> {
 protected:
  void SetUp() override {
    if (!kernels::is_available(GetParam())) {
      GTEST_SKIP() << "this processor cannot run the target";
    }
  }
  const kernels::KernelTable& table() const { return kernels::table_of(GetParam()); }
};

}  // namespace kvant::test
