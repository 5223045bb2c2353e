#include "kvant/model/safetensors.h"

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

std::string u64(std::uint64_t value) {
  std::string out(8, '\0');
  std::memcpy(out.data(), &value, 8);
  return out;
}

std::string file_of(const std::string& header, std::size_t data_bytes) {
  std::string out = u64(header.size()) + header;
  for (std::size_t i = 0; i < data_bytes; ++i) out.push_back(static_cast<char>(i));
  return out;
}

std::string tensor(const std::string& name, const std::string& rest) {
  return "\"" + name + "\":{" + rest + "}";
}

NamedResult<SafetensorsFile> parse(const std::string& bytes) {
  return SafetensorsFile::parse(std::as_bytes(std::span(bytes.data(), bytes.size())), "x.st");
}

const std::string kTwoTensors = R"({"__metadata__":{"format":"pt"},)"
                                R"("b":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]},)"
                                R"("a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}  )";

std::filesystem::path write_file(const std::string& name, const std::string& bytes) {
  const auto path = std::filesystem::path(::testing::TempDir()) / name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(Safetensors, ReadsNamesTypesShapesAndData) {
  const std::string bytes = file_of(kTwoTensors, 28);
  const SafetensorsFile file = parse(bytes).value();
  ASSERT_EQ(file.tensors().size(), 2U);
  EXPECT_EQ(file.tensors()[0].name, "a") << "tensors are sorted by name";
  const TensorInfo* b = file.find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->dtype, tensor::Dtype::kF32);
  EXPECT_EQ(b->shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(b->n_elements(), Elements(6));
  EXPECT_EQ(b->data.size(), 24U);
  EXPECT_EQ(b->data[0], std::byte{4});
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_EQ(file.find(""), nullptr);
}

TEST(Safetensors, EmptyMetadataIsLegal) {
  const auto file = parse(
      file_of(R"({"__metadata__":{},"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", 3));
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->metadata().empty());
}

TEST(Safetensors, TensorsWithoutElementsAndSingleNumbersAreLegal) {
  const auto file = parse(
      file_of(R"({"none":{"dtype":"F32","shape":[4611686018427387904,4,0],"data_offsets":[0,0]},)"
              R"("end":{"dtype":"F16","shape":[0],"data_offsets":[8,8]},)"
              R"("middle":{"dtype":"F16","shape":[0],"data_offsets":[4,4]},)"
              R"("one":{"dtype":"F64","shape":[],"data_offsets":[0,8]}})",
              8));
  ASSERT_TRUE(file) << describe(file.error());
  EXPECT_EQ(file->find("none")->n_elements(), Elements(0));
  EXPECT_EQ(file->find("one")->n_elements(), Elements(1));
}

TEST(Safetensors, FileWithoutTensorsIsLegal) { EXPECT_TRUE(parse(file_of("{}", 0))); }

struct Hostile {
  const char* what;
  std::string bytes;
  ErrorCode code;
  const char* named;  // what the error text must name
};

// One tensor "t" over `data_bytes` bytes.
Hostile one_tensor(const char* what, const std::string& entry, std::size_t data_bytes,
                   ErrorCode code) {
  return {what, file_of("{" + tensor("t", entry) + "}", data_bytes), code, "'t'"};
}

std::string nested(std::size_t depth) {
  std::string out;
  for (std::size_t i = 0; i < depth; ++i) out += "{\"a\":";
  return out + "1" + std::string(depth, '}');
}

std::vector<Hostile> hostile_headers() {
  const std::string two = kTwoTensors;
  return {
      {"empty file", "", ErrorCode::kFileTruncated, "x.st"},
      {"seven bytes", "1234567", ErrorCode::kFileTruncated, "x.st"},
      {"length 2^64-1", u64(~0ULL) + "{}", ErrorCode::kHeaderTooLong, "x.st"},
      {"length 2^40", u64(1ULL << 40) + "{}", ErrorCode::kHeaderTooLong, "x.st"},
      {"length one beyond the file", u64(3) + "{}", ErrorCode::kHeaderTooLong, "x.st"},
      {"length 0", u64(0), ErrorCode::kBadFormat, "x.st"},
      {"length 0 and data", u64(0) + "{}", ErrorCode::kBadFormat, "x.st"},
      {"no object", file_of("[1]", 0), ErrorCode::kBadFormat, "x.st"},
      {"leading blank", file_of(" {}", 0), ErrorCode::kBadFormat, "x.st"},
      {"padding with NUL", file_of(std::string("{}\0\0\0\0\0\0", 8), 0), ErrorCode::kBadJson,
       "x.st"},
      {"two objects", file_of("{}{}", 0), ErrorCode::kBadJson, "x.st"},
      {"cut JSON", file_of(two.substr(0, 40), 28), ErrorCode::kBadJson, "x.st"},
      {"200000 nested objects", file_of(nested(200000), 0), ErrorCode::kBadJson, "nested"},
      {"invalid UTF-8", file_of("{\"\xFF\":1}", 0), ErrorCode::kBadJson, "x.st"},
      {"name twice",
       file_of("{" + tensor("t", R"("dtype":"U8","shape":[1],"data_offsets":[0,1])") + "," +
                   tensor("t", R"("dtype":"U8","shape":[1],"data_offsets":[1,2])") + "}",
               2),
       ErrorCode::kDuplicateName, "'t'"},
      {"key twice",
       file_of(R"({"t":{"dtype":"U8","dtype":"F32","shape":[1],"data_offsets":[0,1]}})", 1),
       ErrorCode::kDuplicateName, "'dtype'"},
      {"tensor that is a number", file_of(R"({"t":1})", 0), ErrorCode::kBadValue, "'t'"},
      {"metadata with a number", file_of(R"({"__metadata__":{"n":1}})", 0), ErrorCode::kBadValue,
       "'n' is 1"},
      {"metadata that is a list", file_of(R"({"__metadata__":[]})", 0), ErrorCode::kBadValue,
       "__metadata__"},
  };
}

std::vector<Hostile> hostile_tensors() {
  constexpr auto kBadValue = ErrorCode::kBadValue;
  const std::string u8 = R"("dtype":"U8","shape":[4],"data_offsets":)";
  return {
      one_tensor("no dtype", R"("shape":[4],"data_offsets":[0,4])", 4, ErrorCode::kMissingKey),
      one_tensor("no shape", R"("dtype":"U8","data_offsets":[0,4])", 4, ErrorCode::kMissingKey),
      one_tensor("no offsets", R"("dtype":"U8","shape":[4])", 4, ErrorCode::kMissingKey),
      one_tensor("unknown type", R"("dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4])", 4,
                 ErrorCode::kUnknownDtype),
      one_tensor("unknown type and wild offsets", R"("dtype":"Q","shape":[4],"data_offsets":[9,1])",
                 4, ErrorCode::kUnknownDtype),
      one_tensor("type that is a number", R"("dtype":1,"shape":[4],"data_offsets":[0,4])", 4,
                 kBadValue),
      one_tensor("a million elements in four bytes",
                 R"("dtype":"F32","shape":[1000,1000],"data_offsets":[0,4])", 4,
                 ErrorCode::kByteSizeMismatch),
      one_tensor("product that wraps to 4",
                 R"("dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4])", 4,
                 ErrorCode::kByteSizeMismatch),
      one_tensor("product that wraps to 0",
                 R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0,
                 ErrorCode::kByteSizeMismatch),
      one_tensor("negative dimension", R"("dtype":"U8","shape":[-4],"data_offsets":[0,4])", 4,
                 kBadValue),
      one_tensor("dimension 2^63",
                 R"("dtype":"U8","shape":[9223372036854775808],)"
                 R"("data_offsets":[0,4])",
                 4, kBadValue),
      one_tensor("fractional dimension", R"("dtype":"U8","shape":[4.0],"data_offsets":[0,4])", 4,
                 kBadValue),
      one_tensor("shape that is a number", R"("dtype":"U8","shape":4,"data_offsets":[0,4])", 4,
                 kBadValue),
      one_tensor("17 dimensions",
                 R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,1])",
                 1, ErrorCode::kLimitExceeded),
      one_tensor("reversed", u8 + "[4,0]", 4, kBadValue),
      one_tensor("negative offset", u8 + "[-1,3]", 4, kBadValue),
      one_tensor("offset 2^63", u8 + "[0,9223372036854775808]", 4, kBadValue),
      {"offset above 2^64", file_of("{" + tensor("t", u8 + "[0,18446744073709551620]") + "}", 4),
       ErrorCode::kBadJson, "x.st"},
      one_tensor("offset 1e2", u8 + "[0,1e2]", 4, kBadValue),
      one_tensor("offset that is a string", u8 + R"([0,"4"])", 4, kBadValue),
      one_tensor("one offset", u8 + "[4]", 4, kBadValue),
      one_tensor("three offsets", u8 + "[0,4,4]", 4, kBadValue),
      one_tensor("end beyond the data", u8 + "[1,5]", 4, ErrorCode::kOffsetOutOfRange),
      one_tensor("begins after the first byte", u8 + "[1,5]", 5, ErrorCode::kOverlap),
      {"bytes after the last tensor", file_of("{" + tensor("t", u8 + "[0,4]") + "}", 5),
       ErrorCode::kOverlap, "after the last"},
      {"data without a tensor", file_of("{}", 1), ErrorCode::kOverlap, "after the last"},
      {"overlap",
       file_of("{" + tensor("s", R"("dtype":"U8","shape":[8],"data_offsets":[0,8])") + "," +
                   tensor("t", R"("dtype":"U8","shape":[8],"data_offsets":[4,12])") + "}",
               12),
       ErrorCode::kOverlap, "'t'"},
      {"gap",
       file_of("{" + tensor("s", R"("dtype":"U8","shape":[4],"data_offsets":[0,4])") + "," +
                   tensor("t", R"("dtype":"U8","shape":[4],"data_offsets":[8,12])") + "}",
               12),
       ErrorCode::kOverlap, "'t'"},
      {"same bytes twice",
       file_of("{" + tensor("s", u8 + "[0,4]") + "," + tensor("t", u8 + "[0,4]") + "}", 4),
       ErrorCode::kOverlap, "'t'"},
  };
}

void expect_refused(const Hostile& hostile) {
  SCOPED_TRACE(hostile.what);
  const auto file = parse(hostile.bytes);
  ASSERT_FALSE(file);
  EXPECT_EQ(name_of(file.error().code()), name_of(hostile.code));
  const std::string text = describe(file.error());
  EXPECT_THAT(text, HasSubstr(hostile.named));
  EXPECT_THAT(text, HasSubstr("x.st"));
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

TEST(SafetensorsHostile, BadHeadersAreRefusedByName) {
  for (const Hostile& hostile : hostile_headers()) expect_refused(hostile);
}

TEST(SafetensorsHostile, BadTensorsAreRefusedByName) {
  for (const Hostile& hostile : hostile_tensors()) expect_refused(hostile);
}

TEST(SafetensorsHostile, EveryTruncationIsRefused) {
  const std::string bytes = file_of(kTwoTensors, 28);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    // An exact copy, so that a read beyond its end is seen by the address sanitizer.
    const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_FALSE(SafetensorsFile::parse(std::as_bytes(std::span(cut)), "x.st")) << n;
  }
}

TEST(SafetensorsHostile, EveryChangedBitIsRefusedOrReadWithinTheFile) {
  const std::string bytes = file_of(kTwoTensors, 28);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto file = parse(damaged);
    if (!file) continue;
    for (const TensorInfo& t : file->tensors()) {
      EXPECT_LE(t.data.size(), 28U);
      EXPECT_EQ(static_cast<std::int64_t>(t.data.size()),
                t.n_elements().value() * tensor::bytes_of(t.dtype));
    }
  }
}

TEST(SafetensorsFileAccess, MappedAndCopiedFilesAreTheSame) {
  const auto path = write_file("two.safetensors", file_of(kTwoTensors, 28));
  for (const FileAccess access : {FileAccess::kMap, FileAccess::kRead}) {
    SafetensorsFile first = SafetensorsFile::open(path, access).value();
    const SafetensorsFile file = std::move(first);
    EXPECT_EQ(file.path(), path);
    ASSERT_NE(file.find("b"), nullptr);
    EXPECT_EQ(file.find("b")->data[23], std::byte{27});
  }
}

TEST(SafetensorsFileAccess, MissingFilesAndFoldersAreRefusedByPath) {
  const std::string folder = ::testing::TempDir();
  for (const FileAccess access : {FileAccess::kMap, FileAccess::kRead}) {
    const auto missing = SafetensorsFile::open(folder + "/absent.safetensors", access);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code(), ErrorCode::kFileOpenFailed);
    EXPECT_THAT(missing.error().detail(), HasSubstr("absent.safetensors"));
    ASSERT_FALSE(SafetensorsFile::open(folder, access));
  }
}

// A bounds check in 32 bits, or one byte too strict, refuses large files.
TEST(SafetensorsFileAccess, TensorThatEndsExactlyAtTheEndOfAFileAbove4GiBLoads) {
  constexpr std::uint64_t kDataBytes = (5ULL << 30) + 4;
  const std::string header =
      R"({"a":{"dtype":"U8","shape":[5368709120],"data_offsets":[0,5368709120]},)"
      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[5368709120,5368709124]}})";
  const auto path = write_file("large.safetensors", u64(header.size()) + header);
  std::error_code failure;
  std::filesystem::resize_file(path, 8 + header.size() + kDataBytes, failure);
  if (failure) GTEST_SKIP() << "no sparse file of 5 GiB here: " << failure.message();
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file) << describe(file.error());
  EXPECT_EQ(file->find("b")->data[3], std::byte{0});
  std::filesystem::resize_file(path, 8 + header.size() + kDataBytes - 1);
  EXPECT_FALSE(SafetensorsFile::open(path));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace kvant::model
