// Damaged, truncated and crafted state files: refused by name, and the sequence stays as it was.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "kvant/state/sequence.h"
#include "tests/support/counting_new.h"
#include "tests/support/state_driver.h"
#include "tests/support/state_files.h"
#include "tests/support/state_worlds.h"
#include "tests/support/test_device.h"

namespace kvant::state {
namespace {

using test::file_of;
using test::FileBytes;
using test::fingerprint_for_tests;
using test::Story;
using test::TestDevice;
using test::with_header;

PlanRequest small_plan(std::int64_t context, Shifts shifts = Shifts::kNone) {
  return {.context = Tokens(context), .n_sequences = 3, .n_snapshots = 4, .shifts = shifts};
}

// A file, and a sequence that it would fit.
struct World {
  explicit World(const Layout& layout, std::int64_t position = 9,
                 StateForm form = StateForm::kCompact)
      : pool(PagePool::create(device, make_plan(layout, small_plan(16)).value()).value()),
        story(pool, Tokens(16)) {
    Story source(pool, Tokens(16));
    if (position > 0) source.step(position);
    source_remembered = source.remembered;
    file = file_of(source.sequence, form);
    story.step(5);
  }

  // What loading answers, after checking that a refusal changed nothing.
  Status load(std::span<const std::byte> bytes) {
    const Bytes used = pool->used();
    const Status status = load_state(story.sequence, bytes, fingerprint_for_tests());
    if (!status) {
      EXPECT_EQ(pool->used(), used);
      EXPECT_EQ(story.compare(), "");
    }
    return status;
  }

  TestDevice device;
  std::shared_ptr<PagePool> pool;
  Story story;
  test::Remembered source_remembered;
  FileBytes file;
};

void expect_refused(World& world, std::span<const std::byte> bytes, const std::string& what) {
  const Status status = world.load(bytes);
  ASSERT_FALSE(status) << what;
  EXPECT_FALSE(describe(status.error()).empty());
}

TEST(DamagedStateFile, WithAnyByteOfAnyOtherValueIsRefused) {
  World world(test::mixed_layout(4), 3);
  for (std::size_t at = 0; at < world.file.size(); ++at) {
    FileBytes damaged = world.file;
    for (int value = 1; value < 256; ++value) {
      damaged[at] = world.file[at] ^ static_cast<std::byte>(value);
      ASSERT_FALSE(StateFile::open(damaged)) << "byte " << at << " changed by " << value;
    }
    expect_refused(world, damaged, "byte " + std::to_string(at));
  }
}

class DamagedFileOf : public ::testing::TestWithParam<StateForm> {};

TEST_P(DamagedFileOf, EveryDisciplineIsRefused) {
  World world(test::full_layout(4), 11, GetParam());
  for (std::size_t at = 0; at < world.file.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xFF}) {
      FileBytes damaged = world.file;
      damaged[at] ^= static_cast<std::byte>(change);
      expect_refused(world, damaged, "byte " + std::to_string(at));
    }
  }
}

TEST_P(DamagedFileOf, AShiftedSequenceIsRefused) {
  TestDevice device;
  const Layout layout = test::shift_layout(4, 30);
  const auto pool =
      PagePool::create(device, make_plan(layout, small_plan(24, Shifts::kPlanned)).value()).value();
  test::StateDriver driver(pool, Tokens(24), test::StateDriver::Exhaustion::kImpossible);
  ASSERT_EQ(driver.step(14), "");
  ASSERT_EQ(driver.shift(3, 2), "");
  const FileBytes file = file_of(driver.sequence(), GetParam());
  ASSERT_FALSE(StateFile::open(file).value().header().pieces.empty());
  for (std::size_t at = 0; at < file.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xFF}) {
      FileBytes damaged = file;
      damaged[at] ^= static_cast<std::byte>(change);
      ASSERT_FALSE(StateFile::open(damaged)) << "byte " << at;
    }
  }
}

TEST_P(DamagedFileOf, AnyOtherLengthIsRefused) {
  World world(test::full_layout(4), 11, GetParam());
  for (std::size_t size = 0; size < world.file.size(); ++size) {
    expect_refused(world, std::span(world.file).first(size), std::to_string(size) + " bytes");
  }
  for (std::size_t more = 1; more <= 130; ++more) {
    for (const std::byte filler : {std::byte{0}, std::byte{0xFF}}) {
      FileBytes longer = world.file;
      longer.resize(longer.size() + more, filler);
      expect_refused(world, longer, std::to_string(more) + " bytes more");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, DamagedFileOf,
                         ::testing::Values(StateForm::kCompact, StateForm::kFull),
                         [](const auto& form) { return std::string(name_of(form.param)); });

TEST(DamagedStateFile, SaysWhatIsWrong) {
  World world(test::full_layout(4));
  const auto code_of = [&](std::span<const std::byte> bytes) {
    return world.load(bytes).error().code;
  };
  const auto with_byte = [&](std::size_t at, std::uint8_t value) {
    FileBytes bytes = world.file;
    bytes[at] = static_cast<std::byte>(value);
    return bytes;
  };
  EXPECT_EQ(code_of({}), ErrorCode::kBadFormat);
  EXPECT_EQ(code_of(with_byte(0, 'X')), ErrorCode::kBadFormat);
  const Error version = world.load(with_byte(8, 1)).error();
  EXPECT_EQ(version.code, ErrorCode::kStateVersion);
  EXPECT_EQ(version.actual, 1U);
  EXPECT_EQ(version.expected, kStateFileVersion);
  // A later version may have another prelude: its number is all that is read.
  const FileBytes later = with_byte(8, 1);
  EXPECT_EQ(code_of(std::span(later).first(12)), ErrorCode::kStateVersion);

  const Error truncated = world.load(std::span(world.file).first(world.file.size() - 1)).error();
  EXPECT_EQ(truncated.code, ErrorCode::kFileTruncated);
  EXPECT_EQ(truncated.actual, world.file.size() - 1);
  EXPECT_EQ(truncated.expected, world.file.size());
  EXPECT_EQ(code_of(std::span(world.file).first(40)), ErrorCode::kFileTruncated);
  EXPECT_EQ(code_of(with_byte(15, 0x10)), ErrorCode::kHeaderTooLong);
  EXPECT_EQ(code_of(with_byte(70, 0x10)), ErrorCode::kChecksumMismatch);
  const StateFile file = StateFile::open(world.file).value();
  const std::size_t section = file.header().sections.back().offset.size();
  const Error damaged = world.load(with_byte(section, 0x3B)).error();
  EXPECT_EQ(damaged.code, ErrorCode::kChecksumMismatch);
  EXPECT_EQ(damaged.actual, section);
}

TEST(ForeignStateFile, OfAnotherModelIsRefused) {
  World world(test::full_layout(4));
  const Status status = load_state(world.story.sequence, world.file, fingerprint_for_tests('b'));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kFingerprintMismatch);
  EXPECT_EQ(world.story.compare(), "");
}

TEST(ForeignStateFile, OfAnotherLayoutIsRefusedAtTheFirstComponentThatDiffers) {
  World world(test::full_layout(4));
  struct Change {
    std::function<void(Layout&)> make;
    std::int32_t layer;
    ComponentKind kind;
  };
  const std::vector<Change> changes = {
      {[](Layout& layout) { layout.layers.pop_back(); }, -1, ComponentKind::kNone},
      {[](Layout& layout) { layout.page_positions = Tokens(8); }, -1, ComponentKind::kNone},
      {[](Layout& layout) { layout.layers[0].components[1].codec = codec::Kind::kF32; }, 0,
       ComponentKind::kValues},
      {[](Layout& layout) { layout.layers[2].components.clear(); }, 2, ComponentKind::kConvState},
      {[](Layout& layout) { layout.layers[3].components[0].window = Tokens(6); }, 3,
       ComponentKind::kKeys}};
  for (const Change& change : changes) {
    Layout layout = test::full_layout(4);
    change.make(layout);
    const World other(layout);
    const Status status = world.load(other.file);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kSnapshotPlanMismatch);
    EXPECT_EQ(status.error().layer, change.layer);
    EXPECT_EQ(status.error().component, change.kind);
  }
}

TEST(ForeignStateFile, BeyondTheContextOrThePoolIsRefused) {
  World world(test::full_layout(4), 13);
  Sequence small = Sequence::create(world.pool, Tokens(12)).value();
  const Error bound = load_state(small, world.file, fingerprint_for_tests()).error();
  EXPECT_EQ(bound.code, ErrorCode::kContextBound);
  EXPECT_EQ(bound.actual, 13U);
  EXPECT_EQ(bound.expected, 12U);
  EXPECT_EQ(small.position(), Position(0));

  TestDevice device;
  const auto pool =
      PagePool::create(device, make_plan(test::full_layout(4), {.context = Tokens(16)}).value())
          .value();
  Story full(pool, Tokens(16));
  full.step(16);
  const Bytes used = pool->used();
  const Error exhausted = load_state(full.sequence, world.file, fingerprint_for_tests()).error();
  EXPECT_EQ(exhausted.code, ErrorCode::kPoolExhausted);
  EXPECT_EQ(pool->used(), used);
  EXPECT_EQ(full.compare(), "");
  ASSERT_TRUE(full.sequence.reset());
  ASSERT_TRUE(full.load(world.file, world.source_remembered));
  EXPECT_EQ(full.compare(), "");
}

// The k-th call of the device fails, for every k.
TEST(StateFileFaults, OfTheDeviceChangeNothing) {
  World world(test::full_layout(4));
  for (std::int64_t k = 0;; ++k) {
    world.device.fail_call(k, TestDevice::Failing::kOnce);
    const Status status = world.load(world.file);
    const bool failed = world.device.n_failures() > 0;
    world.device.stop_failing();
    ASSERT_EQ(status.has_value(), !failed) << k;
    if (!failed) {
      EXPECT_GT(k, 10);
      break;
    }
  }
  EXPECT_EQ(test::compare_all(world.story.sequence, test::without_history(world.source_remembered)),
            "");
}

// The k-th request of the heap fails, for every k.
TEST(StateFileFaults, OfTheHeapChangeNothing) {
  World world(test::full_layout(4));
  std::int64_t k = 0;
  for (bool loaded = false; !loaded; ++k) {
    test::fail_allocation(k);
    const Status status = load_state(world.story.sequence, world.file, fingerprint_for_tests());
    test::fail_allocation(-1);
    loaded = status.has_value();
    if (loaded) break;
    ASSERT_EQ(status.error().code, ErrorCode::kOutOfMemory) << k;
    ASSERT_EQ(world.story.compare(), "") << k;
  }
  EXPECT_GT(k, 20);

  const Snapshot snapshot = world.story.sequence.snapshot().value();
  FileBytes out(world.file.size());
  for (k = 0;; ++k) {
    test::fail_allocation(k);
    auto writer = StateFileWriter::create(snapshot, {.fingerprint = fingerprint_for_tests()});
    const Status status = writer ? writer->write(std::span(out)) : Status(writer.error());
    test::fail_allocation(-1);
    if (status) break;
    ASSERT_EQ(status.error().code, ErrorCode::kOutOfMemory) << k;
  }
  EXPECT_GT(k, 20);
  EXPECT_EQ(out, world.file);
}

// Takes pieces in order, and fails when told to.
class TestSink final : public StateSink {
 public:
  explicit TestSink(std::size_t size) : bytes(size) {}
  Status write(Bytes offset, std::span<const std::byte> piece) override {
    if (n_writes == failing_write) return Error{.code = ErrorCode::kFileWriteFailed, .cause = 28};
    ++n_writes;
    in_order = in_order && !whole && (n_writes == 1 || offset == next || offset == Bytes(0));
    whole = offset == Bytes(0);
    next = offset + Bytes(static_cast<std::int64_t>(piece.size()));
    std::ranges::copy(piece, bytes.begin() + offset.value());
    return ok();
  }

  FileBytes bytes;
  Bytes next{0};
  std::int64_t n_writes = 0;
  std::int64_t failing_write = -1;
  bool in_order = true;
  bool whole = false;
};

TEST(StateFileFaults, OfWritingAreReported) {
  World world(test::full_layout(4));
  const Snapshot snapshot = world.story.sequence.snapshot().value();
  auto writer = StateFileWriter::create(snapshot, {.fingerprint = fingerprint_for_tests()}).value();
  const FileBytes expected = file_of(world.story.sequence);
  ASSERT_EQ(writer.bytes().size(), expected.size());
  FileBytes wrong_size(expected.size() + 1);
  EXPECT_EQ(writer.write(std::span(wrong_size)).error().code, ErrorCode::kInvalidArgument);
  FileBytes out(expected.size());
  std::int64_t k = 0;
  for (;; ++k) {
    world.device.fail_call(k, TestDevice::Failing::kOnce);
    const Status status = writer.write(std::span(out));
    const bool failed = world.device.n_failures() > 0;
    world.device.stop_failing();
    ASSERT_EQ(status.has_value(), !failed) << k;
    if (!failed) break;
  }
  EXPECT_GT(k, 10);
  EXPECT_EQ(out, expected);

  std::int64_t n_writes = 0;
  for (;; ++n_writes) {
    TestSink sink(expected.size());
    sink.failing_write = n_writes;
    const Status status = writer.write(sink);
    if (status) break;
    EXPECT_EQ(status.error().code, ErrorCode::kFileWriteFailed);
    EXPECT_EQ(status.error().cause, 28);
  }
  EXPECT_GT(n_writes, 4);
}

TEST(StateFileWriter, HandsASinkTheSameBytesInOrderAndTheHeaderLast) {
  TestDevice device;
  // Pages larger than the pieces that are handed on.
  Layout layout = test::full_layout(128);
  layout.layers[0].components[0].n_heads = Heads(130);
  const auto pool = PagePool::create(device, make_plan(layout, small_plan(300)).value()).value();
  Story story(pool, Tokens(300));
  story.step(290);
  for (const StateForm form : {StateForm::kCompact, StateForm::kFull}) {
    const FileBytes expected = file_of(story.sequence, form);
    auto writer = StateFileWriter::create(story.sequence.snapshot().value(),
                                          {.form = form, .fingerprint = fingerprint_for_tests()})
                      .value();
    TestSink sink(writer.bytes().size());
    ASSERT_TRUE(writer.write(sink));
    EXPECT_TRUE(sink.in_order);
    EXPECT_TRUE(sink.whole);
    EXPECT_TRUE(sink.bytes == expected);
  }
}

}  // namespace
}  // namespace kvant::state
