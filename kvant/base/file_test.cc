#include "kvant/base/file.h"
#include "tests/support/folder_test.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>

namespace kvant {
namespace {

class FileTest : public test::FolderTest {
 protected:
  std::string write(const std::string& name, const std::string& bytes) const {
    const std::string path = path_of(name);
    std::FILE* file = std::fopen(path.c_str(), "wb");
    EXPECT_NE(file, nullptr);
    EXPECT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), file), bytes.size());
    std::fclose(file);
    return path;
  }
};

using ReadFile = FileTest;
using MappedFileTest = FileTest;

std::string text_in(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST_F(ReadFile, GivesEveryByte) {
  std::string bytes(100000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  const std::string path = write("a", bytes);
  const auto text = read_text_file(path, Bytes(100000));
  ASSERT_TRUE(text) << describe(text.error());
  EXPECT_EQ(*text, bytes);
  const auto raw = read_file(path, Bytes(100000));
  ASSERT_TRUE(raw);
  ASSERT_EQ(raw->size(), bytes.size());
  EXPECT_EQ((*raw)[9], std::byte{63});
}

TEST_F(ReadFile, AnEmptyFileIsEmpty) {
  const auto text = read_text_file(write("a", ""), Bytes(0));
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "");
}

TEST_F(ReadFile, AMissingFileIsNamedWithTheSystemsCause) {
  const auto result = read_file(path_of("none"), Bytes(10));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().error(), (Error{.code = ErrorCode::kFileOpenFailed, .cause = ENOENT}));
  EXPECT_EQ(result.error().detail(), path_of("none"));
}

TEST_F(ReadFile, ADirectoryIsNotAFile) {
  EXPECT_EQ(read_file(folder_, Bytes(10)).error().code(), ErrorCode::kNotAFile);
}

TEST_F(ReadFile, ANamedPipeIsRefusedWithoutWaitingForAWriter) {
  const std::string path = path_of("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(read_file(path, Bytes(10)).error().code(), ErrorCode::kNotAFile);
  EXPECT_EQ(MappedFile::open(path).error().code(), ErrorCode::kNotAFile);
}

TEST_F(ReadFile, AFileLargerThanTheLimitIsRefusedWithBothSizes) {
  const std::string path = write("a", "12345");
  EXPECT_TRUE(read_file(path, Bytes(5)));
  const auto result = read_file(path, Bytes(4));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().error(),
            (Error{.code = ErrorCode::kLimitExceeded, .actual = 5, .expected = 4}));
  EXPECT_EQ(read_file(path, Bytes(-1)).error().code(), ErrorCode::kLimitExceeded);
}

// A sparse file: its size is a claim, not data.
TEST_F(ReadFile, ASparseFileCountsWithItsWholeSize) {
  const std::string path = write("a", "x");
  ASSERT_EQ(::truncate(path.c_str(), off_t{1} << 30), 0);
  const auto limited = read_file(path, Bytes(1 << 20));
  ASSERT_FALSE(limited);
  EXPECT_EQ(limited.error().code(), ErrorCode::kLimitExceeded);
}

TEST_F(ReadFile, APathWithANulIsRefusedInsteadOfCutThere) {
  const std::string path = write("a", "x") + std::string("\0.json", 6);
  const auto result = read_file(path, Bytes(10));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().error(), (Error{.code = ErrorCode::kFileOpenFailed, .cause = EINVAL}));
  EXPECT_EQ(result.error().detail(), path_of("a") + "\\x00.json");
}

// In a child process that is nobody, since root may read everything.
TEST_F(ReadFile, AFileWithoutPermissionIsRefusedWithTheSystemsCause) {
  const std::string path = write("a", "x");
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  const auto read_as_nobody = [&] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) std::_Exit(2);
    const auto result = read_file(path, Bytes(10));
    const Error refused{.code = ErrorCode::kFileOpenFailed, .cause = EACCES};
    std::_Exit(!result && result.error().error() == refused ? 0 : 1);
  };
  EXPECT_EXIT(read_as_nobody(), ::testing::ExitedWithCode(0), "");
}

TEST_F(MappedFileTest, ShowsEveryByteAndItsPath) {
  const std::string path = write("a", "hello");
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file) << describe(file.error());
  EXPECT_EQ(text_in(*file), "hello");
  EXPECT_EQ(file->path(), path);
}

TEST_F(MappedFileTest, OutlivesTheRemovalOfItsName) {
  const std::string path = write("a", "hello");
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file);
  ASSERT_EQ(::unlink(path.c_str()), 0);
  EXPECT_EQ(text_in(*file), "hello");
}

TEST_F(MappedFileTest, AnEmptyFileMapsToAnEmptySpan) {
  const auto file = MappedFile::open(write("a", ""));
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->bytes().empty());
}

TEST_F(MappedFileTest, MissingFilesAndDirectoriesAreRefused) {
  EXPECT_EQ(MappedFile::open(path_of("none")).error().error(),
            (Error{.code = ErrorCode::kFileOpenFailed, .cause = ENOENT}));
  EXPECT_EQ(MappedFile::open(folder_).error().code(), ErrorCode::kNotAFile);
}

TEST_F(MappedFileTest, MovesWithoutUnmappingTwice) {
  auto first = MappedFile::open(write("a", "first"));
  auto second = MappedFile::open(write("b", "second"));
  ASSERT_TRUE(first && second);
  MappedFile moved = std::move(*first);
  EXPECT_EQ(text_in(moved), "first");
  moved = std::move(*second);
  EXPECT_EQ(text_in(moved), "second");
}

}  // namespace
}  // namespace kvant
