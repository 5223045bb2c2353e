// Headers that contradict themselves under checksums that fit: what only a hostile writer makes.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "kvant/state/state_file_check.h"
#include "tests/support/state_driver.h"
#include "tests/support/state_files.h"
#include "tests/support/state_worlds.h"
#include "tests/support/test_device.h"

namespace kvant::state {
namespace {

using test::file_of;
using test::FileBytes;
using test::TestDevice;
using test::with_header;

struct Crafted {
  const char* what;
  std::function<void(StateFileHeader&)> change;
  ErrorCode code;
};

void expect_all_refused(const FileBytes& file, const std::vector<Crafted>& changes) {
  const StateFileHeader header = StateFile::open(file).value().header();
  ASSERT_TRUE(StateFile::open(with_header(file, header)));
  for (const Crafted& crafted : changes) {
    StateFileHeader changed = header;
    crafted.change(changed);
    const auto opened = StateFile::open(with_header(file, changed));
    ASSERT_FALSE(opened) << crafted.what;
    EXPECT_EQ(opened.error().code, crafted.code)
        << crafted.what << ": " << name_of(opened.error().code);
  }
}

FileBytes cold_file(const Layout& layout, std::int64_t position, StateForm form) {
  TestDevice device;
  const auto pool =
      PagePool::create(device, make_plan(layout, {.context = Tokens(16)}).value()).value();
  test::Story story(pool, Tokens(16));
  story.step(position);
  return file_of(story.sequence, form);
}

// Positions 0 to 12 of 15, after positions 3 and 4 were dropped; pages of 4.
FileBytes shifted_file() {
  TestDevice device;
  const auto pool =
      PagePool::create(device, make_plan(test::shift_layout(4, 30), {.context = Tokens(24),
                                                                     .n_sequences = 2,
                                                                     .n_snapshots = 2,
                                                                     .shifts = Shifts::kPlanned})
                                   .value())
          .value();
  test::StateDriver driver(pool, Tokens(24), test::StateDriver::Exhaustion::kImpossible);
  EXPECT_EQ(driver.step(15), "");
  EXPECT_EQ(driver.shift(3, 2), "");
  return file_of(driver.sequence());
}

constexpr auto kBad = ErrorCode::kBadFormat;
constexpr auto kBuffer = ErrorCode::kSnapshotBufferMismatch;

TEST(CraftedStateFile, WhoseNumbersContradictEachOtherIsRefused) {
  using Header = StateFileHeader;
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  expect_all_refused(
      cold_file(test::full_layout(4), 9, StateForm::kCompact),
      {{"another position, same page", [](Header& h) { h.position = Position(10), h.age = 10; },
        kBuffer},
       {"a position of more pages", [](Header& h) { h.position = Position(13), h.age = 13; },
        kBuffer},
       {"position -1", [](Header& h) { h.position = Position(-1); }, kBad},
       {"the largest position", [](Header& h) { h.position = Position(kMost), h.age = kMost; },
        kBad},
       {"the largest position allowed",
        [](Header& h) { h.position = Position(kMaxAge), h.age = kMaxAge; }, kBad},
       {"an age before the position", [](Header& h) { h.age = 8; }, kBad},
       {"a cold state that dropped positions", [](Header& h) { h.age = 10; }, kBad},
       {"no run", [](Header& h) { h.runs.clear(); }, kBad},
       {"a run that does not begin at 0", [](Header& h) { h.runs[0].first = Position(1); }, kBad},
       {"a delta of a state that dropped nothing", [](Header& h) { h.runs[0].delta = -1; }, kBad},
       {"the smallest delta",
        [](Header& h) { h.runs[0].delta = std::numeric_limits<std::int64_t>::min(); }, kBad},
       {"the other form", [](Header& h) { h.form = StateForm::kFull; }, kBuffer},
       {"no layers", [](Header& h) { h.layout.layers.clear(); }, ErrorCode::kLayoutInvalid},
       {"pages of no position", [](Header& h) { h.layout.page_positions = Tokens(0); },
        ErrorCode::kLayoutInvalid},
       {"pages of other positions", [](Header& h) { h.layout.page_positions = Tokens(8); },
        kBuffer},
       {"wider rows", [](Header& h) { h.layout.layers[0].components[0].row_width += Elements(1); },
        kBuffer},
       {"rows beyond all memory",
        [](Header& h) { h.layout.layers[0].components[0].row_width = Elements(kMost); },
        ErrorCode::kByteOverflow},
       {"a NaN as initial value",
        [](Header& h) {
          h.layout.layers[2].components[0].initial_value = std::numeric_limits<float>::quiet_NaN();
        },
        ErrorCode::kLayoutInvalid},
       {"an unknown codec",
        [](Header& h) { h.layout.layers[0].components[0].codec = static_cast<codec::Kind>(9); },
        kBad},
       {"an unknown discipline",
        [](Header& h) { h.layout.layers[0].components[0].discipline = static_cast<Discipline>(4); },
        kBad},
       {"an unknown kind",
        [](Header& h) { h.layout.layers[0].components[0].kind = static_cast<ComponentKind>(200); },
        kBad},
       {"an unknown form", [](Header& h) { h.form = static_cast<StateForm>(2); }, kBad},
       {"an unknown lineage", [](Header& h) { h.lineage = static_cast<Lineage>(2); }, kBad}});
}

TEST(StateFileWriter, RefusesWhatNoReaderTakes) {
  StateFileHeader header;
  header.layout.layers.resize(4096);
  EXPECT_TRUE(encode_front(header, Bytes(0)));
  header.layout.layers.resize(4097);
  const Error error = encode_front(header, Bytes(0)).error();
  EXPECT_EQ(error.code, ErrorCode::kLimitExceeded);
  EXPECT_EQ(error.actual, 4097U);
  EXPECT_EQ(error.expected, 4096U);
}

TEST(CraftedStateFile, WhoseSectionsAreNotThoseOfItsStateIsRefused) {
  using Header = StateFileHeader;
  expect_all_refused(
      cold_file(test::full_layout(4), 9, StateForm::kFull),
      {{"a section less", [](Header& h) { h.sections.pop_back(); }, kBad},
       {"no section", [](Header& h) { h.sections.clear(); }, kBad},
       {"a section twice", [](Header& h) { h.sections.push_back(h.sections.back()); }, kBad},
       {"two sections in the wrong order",
        [](Header& h) { std::swap(h.sections[0], h.sections[1]); }, kBad},
       {"a page of another group", [](Header& h) { h.sections[0].group = 1; }, kBad},
       {"a page of no group", [](Header& h) { h.sections[0].group = 77; }, kBad},
       {"another page", [](Header& h) { h.sections[0].page = 1; }, kBad},
       {"a block as a page", [](Header& h) { h.sections[0].kind = SectionKind::kBlock; }, kBad},
       {"an unknown kind", [](Header& h) { h.sections[0].kind = static_cast<SectionKind>(9); },
        kBad},
       {"a shorter section", [](Header& h) { h.sections[0].bytes += Bytes(-1); }, kBuffer},
       {"a longer section", [](Header& h) { h.sections[0].bytes += Bytes(64); }, kBuffer},
       {"a section as long as can be",
        [](Header& h) { h.sections[0].bytes = Bytes(std::numeric_limits<std::int64_t>::max()); },
        kBuffer},
       {"a section over another", [](Header& h) { h.sections[1].offset = h.sections[0].offset; },
        ErrorCode::kOffsetOutOfRange},
       {"a section behind the file", [](Header& h) { h.sections.back().offset += Bytes(1 << 20); },
        ErrorCode::kOffsetOutOfRange},
       {"a section at an odd place", [](Header& h) { h.sections[0].offset += Bytes(1); },
        ErrorCode::kOffsetOutOfRange},
       {"another checksum", [](Header& h) { h.sections[0].checksum.low ^= 1; },
        ErrorCode::kChecksumMismatch},
       {"a state in another place", [](Header& h) { h.pieces = {{0, 0, 0, 4}}; }, kBad}});
}

TEST(CraftedStateFile, WhosePiecesAreNotRowsOfPagesIsRefused) {
  using Header = StateFileHeader;
  const FileBytes file = shifted_file();
  // Group 0: pages of rows 0 to 2; then 1 to 3 (position 3 is row 1 of page 1), 0 to 3, 0 to 2.
  const std::vector<RowPiece> group0 = {{0, 0, 0, 3}, {0, 1, 1, 3}, {0, 2, 0, 4}, {0, 3, 0, 3}};
  const auto pieces = StateFile::open(file).value().header().pieces;
  ASSERT_TRUE(std::equal(group0.begin(), group0.end(), pieces.begin()));
  expect_all_refused(
      file,
      {{"a cold state with cuts", [](Header& h) { h.lineage = Lineage::kCold; }, kBad},
       {"no pieces", [](Header& h) { h.pieces.clear(); }, kBad},
       {"a piece less", [](Header& h) { h.pieces.pop_back(); }, kBad},
       {"a row less", [](Header& h) { h.pieces[3].n_rows = 2; }, kBad},
       {"a row more", [](Header& h) { h.pieces[3].n_rows = 4; }, kBad},
       {"a piece without rows", [](Header& h) { h.pieces[3].n_rows = 0; }, kBad},
       {"a row behind the page", [](Header& h) { h.pieces[1].first_row = 2; }, kBad},
       {"the last row there could be", [](Header& h) { h.pieces[1].first_row = 0xFFFFFFFFu; },
        kBad},
       {"as many rows as there could be", [](Header& h) { h.pieces[1].n_rows = 0xFFFFFFFFu; },
        kBad},
       {"a page left out", [](Header& h) { h.pieces[3].page = 4; }, kBad},
       {"pages in the wrong order", [](Header& h) { std::swap(h.pieces[1], h.pieces[2]); }, kBad},
       {"a first page that is not the first", [](Header& h) { h.pieces[0].page = 1; }, kBad},
       {"rows over other rows", [](Header& h) { h.pieces[1].page = 0; }, kBad},
       {"groups in the wrong order",
        [](Header& h) { std::swap(h.pieces.front(), h.pieces.back()); }, kBad},
       {"a group that is not there", [](Header& h) { h.pieces.back().group = 9; }, kBad},
       {"a piece with two deltas", [](Header& h) { h.runs[1].first = Position(4); }, kBad},
       {"a delta beyond what was dropped", [](Header& h) { h.runs[1].delta = -3; }, kBad},
       {"a delta forwards", [](Header& h) { h.runs[1].delta = 1; }, kBad},
       {"two runs of one delta", [](Header& h) { h.runs[1].delta = 0; }, kBad},
       {"runs in the wrong order", [](Header& h) { h.runs[1].first = Position(0); }, kBad},
       {"a run behind the state", [](Header& h) { h.runs[1].first = h.position; }, kBad},
       {"more runs than a state has", [](Header& h) { h.runs.resize(40); }, kBad}});
}

TEST(CraftedStateFile, WhoseNumbersBesideTheStateAreCutIsRefused) {
  TestDevice device;
  const auto pool =
      PagePool::create(device, make_plan(test::mixed_layout(4), {.context = Tokens(16)}).value())
          .value();
  test::Story story(pool, Tokens(16));
  const std::vector<TokenId> tokens = {1, 2, 3};
  const std::vector<float> logits = {1.0F};
  auto writer = StateFileWriter::create(story.sequence.snapshot().value(),
                                        {.tokens = tokens, .logits = logits})
                    .value();
  FileBytes file(writer.bytes().size());
  ASSERT_TRUE(writer.write(std::span(file)));
  using Header = StateFileHeader;
  expect_all_refused(
      file,
      {{"three bytes of a token", [](Header& h) { h.sections[1].bytes = Bytes(11); },
        ErrorCode::kByteSizeMismatch},
       {"no byte of a token", [](Header& h) { h.sections[1].bytes = Bytes(0); }, kBad},
       {"more tokens than the file holds",
        [](Header& h) { h.sections[1].bytes = Bytes(std::int64_t{1} << 40); },
        ErrorCode::kFileTruncated},
       {"tokens of a group", [](Header& h) { h.sections[1].group = 1; }, kBad},
       {"logits before tokens", [](Header& h) { std::swap(h.sections[1], h.sections[2]); }, kBad},
       {"tokens twice", [](Header& h) { h.sections[2].kind = SectionKind::kTokens; }, kBad}});
}

// Any byte of the header may be another one, under a checksum that fits: refused, or a file of some
// state that could be, which loads or is refused by the sequence.
TEST(CraftedStateFile, WhoseHeaderHasAnyOtherByteIsRefusedOrLoads) {
  const Layout layout = test::mixed_layout(4);
  const FileBytes file = cold_file(layout, 3, StateForm::kCompact);
  TestDevice device;
  const auto pool =
      PagePool::create(device, make_plan(layout, {.context = Tokens(16), .n_sequences = 2}).value())
          .value();
  Sequence sequence = Sequence::create(pool, Tokens(16)).value();
  const std::size_t header_bytes =
      static_cast<std::size_t>(file[12]) + (static_cast<std::size_t>(file[13]) << 8);
  std::size_t n_refused = 0;
  std::size_t n_loaded = 0;
  for (std::size_t at = 0; at < header_bytes; ++at) {
    for (const int change : {0x01, 0x04, 0x80, 0xFF}) {
      FileBytes crafted = file;
      crafted[64 + at] ^= static_cast<std::byte>(change);
      Xxh3Stream sum = Xxh3Stream::create().value();
      sum.update(std::span(crafted).first(32));
      sum.update(std::span(crafted).subspan(64, header_bytes));
      const Digest128 digest = sum.digest();
      std::memcpy(crafted.data() + 32, &digest.low, 8);
      std::memcpy(crafted.data() + 40, &digest.high, 8);
      n_refused += StateFile::open(crafted) ? 0U : 1U;
      n_loaded += load_state(sequence, crafted, test::fingerprint_for_tests()) ? 1U : 0U;
    }
  }
  EXPECT_GT(n_refused, header_bytes * 2);
  EXPECT_LT(n_loaded, header_bytes);  // FlatBuffers' padding, and fields that are not in use
}

}  // namespace
}  // namespace kvant::state
