#include "kvant/model/weight_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace kvant::model {
namespace {

using ::testing::HasSubstr;

// A model directory of its own for each test.
class WeightSetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::path(::testing::TempDir()) /
                 ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(directory_ / name, std::ios::binary) << bytes;
  }
  // A file of one-byte tensors; each holds the first letter of the file's name.
  void write_shard(const std::string& name, const std::vector<std::string>& tensors) {
    std::string header = "{";
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (i > 0) header += ",";
      header += "\"" + tensors[i] + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
                std::to_string(i) + "," + std::to_string(i + 1) + "]}";
    }
    header += "}";
    std::string length(8, '\0');
    const std::uint64_t n = header.size();
    std::memcpy(length.data(), &n, 8);
    write(name, length + header + std::string(tensors.size(), name[0]));
  }
  void write_index(const std::string& weight_map) {
    write("model.safetensors.index.json",
          R"({"metadata":{"total_size":3},"weight_map":)" + weight_map + "}");
  }
  void expect_refused(ErrorCode code, const std::string& named) {
    const auto set = WeightSet::open(directory_);
    ASSERT_FALSE(set);
    EXPECT_EQ(name_of(set.error().code()), name_of(code));
    EXPECT_THAT(describe(set.error()), HasSubstr(named));
  }

  std::filesystem::path directory_;
};

TEST_F(WeightSetTest, SingleFileIsTheModel) {
  write_shard("model.safetensors", {"b", "a"});
  const WeightSet set = WeightSet::open(directory_).value();
  ASSERT_EQ(set.tensors().size(), 2U);
  EXPECT_EQ(set.tensors()[0]->name, "a");
  EXPECT_EQ(set.data_bytes(), Bytes(2));
  EXPECT_EQ(set.find("c"), nullptr);
}

TEST_F(WeightSetTest, ShardsAreOneMapOfNames) {
  write_shard("x-00001-of-00002.safetensors", {"a", "c"});
  write_shard("y-00002-of-00002.safetensors", {"b"});
  write_index(R"({"a":"x-00001-of-00002.safetensors","b":"y-00002-of-00002.safetensors",)"
              R"("c":"x-00001-of-00002.safetensors"})");
  WeightSet opened = WeightSet::open(directory_, FileAccess::kRead).value();
  const WeightSet set = std::move(opened);
  ASSERT_EQ(set.tensors().size(), 3U);
  EXPECT_EQ(set.find("b")->data[0], std::byte{'y'});
  EXPECT_EQ(set.find("c")->data[0], std::byte{'x'});
}

TEST_F(WeightSetTest, TheIndexWinsOverStrayFiles) {
  write_shard("x.safetensors", {"a"});
  write("model.safetensors", "not a model at all");
  write_index(R"({"a":"x.safetensors"})");
  EXPECT_TRUE(WeightSet::open(directory_));
}

TEST_F(WeightSetTest, MissingShardIsNamed) {
  write_shard("x-1-of-3.safetensors", {"a"});
  write_shard("x-3-of-3.safetensors", {"c"});
  write_index(
      R"({"a":"x-1-of-3.safetensors","b":"x-2-of-3.safetensors","c":"x-3-of-3.safetensors"})");
  expect_refused(ErrorCode::kMissingFile, "x-2-of-3.safetensors");
}

TEST_F(WeightSetTest, TensorThatItsShardLacksIsNamed) {
  write_shard("x.safetensors", {"a"});
  write_index(R"({"a":"x.safetensors","b":"x.safetensors"})");
  expect_refused(ErrorCode::kMissingTensor, "'b'");
}

TEST_F(WeightSetTest, TensorInTwoShardsIsRefused) {
  write_shard("x.safetensors", {"a", "b"});
  write_shard("y.safetensors", {"b"});
  write_index(R"({"a":"x.safetensors","b":"y.safetensors"})");
  expect_refused(ErrorCode::kDuplicateName, "'b'");
}

TEST_F(WeightSetTest, ShardCountThatDisagreesIsRefused) {
  write_shard("x-00001-of-00003.safetensors", {"a"});
  write_index(R"({"a":"x-00001-of-00003.safetensors"})");
  expect_refused(ErrorCode::kBadValue, "3 shards");
}

TEST_F(WeightSetTest, FilesOutsideTheDirectoryAreNeverOpened) {
  for (const char* name : {"../x.safetensors", "/etc/passwd", "..", ".", "", "a\\\\b"}) {
    write_index(std::string(R"({"a":")") + name + R"("})");
    expect_refused(ErrorCode::kBadValue, "allowed is the name of a file beside the index");
  }
  write_index(R"({"a":7})");
  expect_refused(ErrorCode::kBadValue, "is 7");
}

TEST_F(WeightSetTest, BadIndexesAreRefused) {
  write("model.safetensors.index.json", "{");
  expect_refused(ErrorCode::kBadJson, "index.json");
  write("model.safetensors.index.json", "{}");
  expect_refused(ErrorCode::kMissingKey, "weight_map");
  write_index("{}");
  expect_refused(ErrorCode::kBadValue, "weight_map");
  write_index(R"({"a":"x.safetensors","a":"y.safetensors"})");
  expect_refused(ErrorCode::kDuplicateName, "'a'");
}

TEST_F(WeightSetTest, DirectoryWithoutWeightsIsRefusedByWhatIsMissing) {
  expect_refused(ErrorCode::kMissingFile, "model.safetensors");
}

TEST_F(WeightSetTest, RequireChecksTheShape) {
  write_shard("model.safetensors", {"a"});
  const WeightSet set = WeightSet::open(directory_).value();
  const std::vector<std::int64_t> right = {1};
  const std::vector<std::int64_t> wrong = {2};
  const std::vector<std::int64_t> deep = {1, 1};
  EXPECT_EQ(*set.require("a", right), set.find("a"));
  EXPECT_EQ(set.require("b", right).error().code(), ErrorCode::kMissingTensor);
  const auto shape = set.require("a", wrong);
  ASSERT_FALSE(shape);
  EXPECT_EQ(shape.error().error(),
            (Error{.code = ErrorCode::kShapeMismatch, .actual = 1, .expected = 2}));
  EXPECT_THAT(shape.error().detail(), HasSubstr("'a': shape is [1], must be [2]"));
  EXPECT_EQ(set.require("a", deep).error().error(),
            (Error{.code = ErrorCode::kShapeMismatch, .actual = 1, .expected = 2}));
}

}  // namespace
}  // namespace kvant::model
