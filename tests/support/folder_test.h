// Tests that need files.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace kvant::test {

// A folder of its own for each test, removed afterwards.
class FolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "kvant_test_XXXXXX";  // the form of mkdtemp
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path_of(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

}  // namespace kvant::test
