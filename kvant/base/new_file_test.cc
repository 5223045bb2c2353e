#include "kvant/base/new_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>

#include "kvant/base/file.h"
#include "tests/support/folder_test.h"

namespace kvant {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class NewFileTest : public test::FolderTest {
 protected:
  std::ptrdiff_t n_files() const {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  }
  static std::string text_of(const std::string& path) {
    return read_text_file(path, Bytes(1 << 20)).value();
  }
};

TEST_F(NewFileTest, AppearsWholeWhenItIsCommitted) {
  const std::string path = path_of("state");
  NewFile file = NewFile::create(path, NewFile::Readers::kUmask).value();
  ASSERT_TRUE(file.write(Bytes(3), bytes_of("def")));
  ASSERT_TRUE(file.write(Bytes(0), bytes_of("abc")));
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(file.commit());
  EXPECT_EQ(text_of(path), "abcdef");
  EXPECT_EQ(n_files(), 1);
}

TEST_F(NewFileTest, TakesThePlaceOfAnOlderFileOnlyWhenItIsCommitted) {
  const std::string path = path_of("state");
  {
    NewFile file = NewFile::create(path, NewFile::Readers::kUmask).value();
    ASSERT_TRUE(file.write(Bytes(0), bytes_of("old")));
    ASSERT_TRUE(file.commit());
  }
  {
    NewFile given_up = NewFile::create(path, NewFile::Readers::kUmask).value();
    ASSERT_TRUE(given_up.write(Bytes(0), bytes_of("half of")));
  }
  EXPECT_EQ(text_of(path), "old");
  EXPECT_EQ(n_files(), 1);
  NewFile file = NewFile::create(path, NewFile::Readers::kUmask).value();
  ASSERT_TRUE(file.write(Bytes(0), bytes_of("new")));
  ASSERT_TRUE(file.commit());
  EXPECT_EQ(text_of(path), "new");
}

TEST_F(NewFileTest, TwoWritersOfOneNameDoNotMix) {
  const std::string path = path_of("state");
  NewFile first = NewFile::create(path, NewFile::Readers::kUmask).value();
  NewFile second = NewFile::create(path, NewFile::Readers::kUmask).value();
  ASSERT_TRUE(first.write(Bytes(0), bytes_of("aaaa")));
  ASSERT_TRUE(second.write(Bytes(0), bytes_of("bb")));
  ASSERT_TRUE(second.commit());
  EXPECT_EQ(text_of(path), "bb");
  ASSERT_TRUE(first.commit());
  EXPECT_EQ(text_of(path), "aaaa");
}

TEST_F(NewFileTest, MayBeForItsOwnerAlone) {
  const std::string path = path_of("state");
  NewFile file = NewFile::create(path, NewFile::Readers::kOwnerOnly).value();
  ASSERT_TRUE(file.commit());
  struct stat info{};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(NewFileTest, DoesNotReplaceWhatIsNoRegularFile) {
  EXPECT_EQ(NewFile::create("/dev/null", NewFile::Readers::kUmask).error().code(),
            ErrorCode::kNotAFile);
  EXPECT_EQ(NewFile::create(folder_, NewFile::Readers::kUmask).error().code(),
            ErrorCode::kNotAFile);
}

TEST_F(NewFileTest, SaysWhyItCannotBeMade) {
  const auto error = NewFile::create(path_of("no/such/folder"), NewFile::Readers::kUmask).error();
  EXPECT_EQ(error.code(), ErrorCode::kFileOpenFailed);
  EXPECT_EQ(error.error().cause, ENOENT);
  EXPECT_NE(error.detail().find("no/such/folder"), std::string::npos);
  const std::string name("a\0b", 3);
  EXPECT_EQ(NewFile::create(path_of(name), NewFile::Readers::kUmask).error().error().cause, EINVAL);
}

TEST_F(NewFileTest, AWriteThatFailsIsAnErrorAndLeavesNothing) {
  // A limit on the size of files stands for a full disk.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 8;
  {
    NewFile file = NewFile::create(path_of("state"), NewFile::Readers::kUmask).value();
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const Status status = file.write(Bytes(0), bytes_of("more than eight"));
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kFileWriteFailed);
    EXPECT_EQ(status.error().cause, EFBIG);
  }
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(n_files(), 0);
}

}  // namespace
}  // namespace kvant
