// Files of sequences whose context was shifted: rows in the places and with the deltas they had.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "kvant/base/prng.h"
#include "kvant/kernels/dispatch.h"
#include "kvant/state/sequence.h"
#include "kvant/state/turn_keys.h"
#include "tests/support/state_driver.h"
#include "tests/support/state_files.h"
#include "tests/support/state_worlds.h"
#include "tests/support/test_device.h"

namespace kvant::state {
namespace {

using test::file_of;
using test::FileBytes;
using test::Remembered;
using test::StateDriver;
using test::Story;
using test::TestDevice;

constexpr std::array kForms = {StateForm::kCompact, StateForm::kFull};

std::shared_ptr<PagePool> make_pool(TestDevice& device, const Layout& layout, std::int64_t context,
                                    std::int64_t max_rollback) {
  return PagePool::create(device, make_plan(layout, {.context = Tokens(context),
                                                     .n_sequences = 4,
                                                     .n_snapshots = 8,
                                                     .max_rollback = Tokens(max_rollback),
                                                     .shifts = Shifts::kPlanned})
                                      .value())
      .value();
}

// Extents as a kernel sees them, but for addresses.
std::vector<tensor::Extent> extents_of(const Sequence& sequence, LayerIndex layer,
                                       ComponentKind kind) {
  const auto view = sequence.read_rows(layer, kind).value();
  std::vector<tensor::Extent> extents(view.extents.begin(), view.extents.end());
  for (tensor::Extent& extent : extents) extent.page = nullptr;
  return extents;
}

std::string cuts_of(const Sequence& sequence) {
  std::string text;
  for (const tensor::Extent& extent : extents_of(sequence, LayerIndex(0), ComponentKind::kKeys)) {
    text += std::to_string(extent.first_row) + "+" + std::to_string(extent.n_rows) + "@" +
            std::to_string(extent.position_delta) + " ";
  }
  return text;
}

// Loads what `sequence` remembers into another pool, compares, and goes on there.
void expect_comes_back(const Sequence& sequence, const Remembered& remembered,
                       const std::shared_ptr<PagePool>& pool) {
  for (const StateForm form : kForms) {
    const FileBytes file = file_of(sequence, form);
    Story story(pool, sequence.capacity() + Tokens(8));
    const Status status = story.load(file, remembered);
    ASSERT_TRUE(status) << describe(status.error());
    ASSERT_EQ(story.compare(), "");
    ASSERT_EQ(cuts_of(story.sequence), cuts_of(sequence));
    ASSERT_TRUE(file_of(story.sequence, form) == file) << "another file after loading";
    ASSERT_TRUE(std::ranges::equal(story.sequence.position_runs(), sequence.position_runs()));
    story.step(5);
    ASSERT_EQ(story.compare(), "");
    story.run(2);
    ASSERT_EQ(story.compare(), "");
  }
}

TEST(StateFileOfShifts, KeepsEveryCut) {
  for (const std::int64_t page : {1, 2, 4, 8}) {
    TestDevice device;
    const Layout layout = test::shift_layout(page, 40);
    StateDriver driver(make_pool(device, layout, 60, 1), Tokens(60),
                       StateDriver::Exhaustion::kImpossible);
    driver.allow_released_rows();
    const auto other = make_pool(device, layout, 90, 2);
    ASSERT_EQ(driver.step(37), "");
    struct Cut {
      std::int64_t keep;
      std::int64_t n;
    };
    for (const Cut& cut : {Cut{3, 5}, Cut{4, 1}, Cut{0, 8}, Cut{11, 2}, Cut{2, 3}, Cut{16, 1}}) {
      ASSERT_EQ(driver.shift(cut.keep, cut.n), "") << page;
      expect_comes_back(driver.sequence(), driver.remembered(), other);
      ASSERT_EQ(driver.step(2), "");
      expect_comes_back(driver.sequence(), driver.remembered(), other);
    }
  }
}

TEST(StateFileOfShifts, OfEverythingDroppedKeepsWhatIsNotBoundToPositions) {
  TestDevice device;
  const Layout layout = test::shift_layout(4, 5);
  StateDriver driver(make_pool(device, layout, 30, 1), Tokens(30),
                     StateDriver::Exhaustion::kImpossible);
  const auto other = make_pool(device, layout, 60, 0);
  ASSERT_EQ(driver.step(9), "");
  ASSERT_EQ(driver.shift(0, 4), "");  // so that later rows have a delta
  ASSERT_EQ(driver.shift(0, 5), "");
  ASSERT_EQ(driver.sequence().position(), Position(0));
  expect_comes_back(driver.sequence(), driver.remembered(), other);
  ASSERT_EQ(driver.step(3), "");
  expect_comes_back(driver.sequence(), driver.remembered(), other);
}

// Only the tail is dropped: rows lie where those of a fresh state do, and the file says no more.
TEST(StateFileOfShifts, OfADroppedTailNeedsNoPieces) {
  TestDevice device;
  const Layout layout = test::shift_layout(4, 40);
  const auto pool = make_pool(device, layout, 60, 0);
  StateDriver driver(pool, Tokens(30), StateDriver::Exhaustion::kImpossible);
  ASSERT_EQ(driver.step(13), "");
  ASSERT_EQ(driver.shift(6, 7), "");
  const FileBytes bytes = file_of(driver.sequence());
  const StateFile file = StateFile::open(bytes).value();
  EXPECT_TRUE(file.header().pieces.empty());
  EXPECT_EQ(file.header().age, 13);
  EXPECT_EQ(file.header().lineage, Lineage::kDerived);
  expect_comes_back(driver.sequence(), driver.remembered(), pool);
}

// A window that begins within a page: the rows of the page before it are not in the file, so a
// shift that would need them is refused as one that needs released pages is.
TEST(StateFileOfShifts, AShiftAfterLoadingNeverSeesRowsThatTheFileLacks) {
  TestDevice device;
  const Layout layout = test::shift_layout(8, 6);
  const auto pool = make_pool(device, layout, 40, 0);
  Story source(pool, Tokens(40));
  source.step(15);  // the window of the next query begins at position 10, its page at 8
  Story story(pool, Tokens(40));
  ASSERT_TRUE(story.load(file_of(source.sequence), source.remembered));
  const ShiftRequest within_window{.keep = Position(12), .n = Tokens(2)};
  EXPECT_TRUE(source.sequence.can_shift(within_window));
  const Error error = story.sequence.shift(within_window).error();
  EXPECT_EQ(error.code, ErrorCode::kShiftRowsReleased);
  EXPECT_EQ(error.layer, 3);
  EXPECT_EQ(story.compare(), "");
  // What lies wholly before the window may go.
  EXPECT_TRUE(story.sequence.shift({.keep = Position(1), .n = Tokens(4)}));
}

TEST(StateFileOfShifts, OfTurnedKeysKeepsTheHoles) {
  TestDevice device;
  Layout layout;
  layout.page_positions = Tokens(8);
  layout.layers = {{{test::append_spec(ComponentKind::kKeys, codec::Kind::kF32, 2, 8),
                     test::append_spec(ComponentKind::kValues, codec::Kind::kF32, 2, 8)}}};
  const auto pool = make_pool(device, layout, 60, 0);
  StateDriver driver(pool, Tokens(60), StateDriver::Exhaustion::kImpossible);
  ASSERT_EQ(driver.step(29), "");
  ASSERT_EQ(driver.shift(3, 4), "");
  ASSERT_EQ(driver.shift(9, 7), "");
  const auto frequencies = kernels::RopeFrequencies::create({.theta = 10000.0, .head_dim = 8});
  ASSERT_TRUE(frequencies);
  ASSERT_TRUE(
      turn_stored_keys(driver.sequence(), kernels::best_table(), {.frequencies = &*frequencies}));
  const FileBytes file = file_of(driver.sequence());
  Sequence loaded = Sequence::create(pool, Tokens(60)).value();
  ASSERT_TRUE(load_state(loaded, file, test::fingerprint_for_tests()));
  EXPECT_EQ(cuts_of(loaded), cuts_of(driver.sequence()));
  EXPECT_NE(cuts_of(loaded), "0+8@0 0+8@0 0+2@0 ");
  EXPECT_EQ(file_of(loaded), file);
}

// Random steps, shifts, rollbacks and restores, with a file now and then.
TEST(StateFileOfShifts, ComesBackAfterAnyHistory) {
  constexpr std::uint64_t kSeed = 20240607;
  Xoshiro256 random(kSeed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(n));
  };
  for (int story = 0; story < 150; ++story) {
    TestDevice device;
    const std::int64_t page = 1 + below(8);
    const Layout layout = test::shift_layout(page, 1 + below(12));
    StateDriver driver(make_pool(device, layout, 40, below(4)), Tokens(40),
                       StateDriver::Exhaustion::kImpossible);
    driver.allow_released_rows();
    const auto other = make_pool(device, layout, 80, below(3));
    for (int i = 0; i < 25; ++i) {
      const std::int64_t position = driver.remembered().position();
      std::string wrong;
      switch (below(7)) {
        case 0:
        case 1:
        case 2:
          if (const std::int64_t n = 1 + below(6); position + n <= 40) wrong = driver.step(n);
          break;
        case 3:
          if (position > 0) {
            const std::int64_t keep = below(position);
            wrong = driver.shift(keep, 1 + below(position - keep));
          }
          break;
        case 4:
          if (driver.sequence().rollback_depth() > Tokens(0)) wrong = driver.rollback(1);
          break;
        case 5:
          wrong = below(2) == 0 ? driver.snapshot() : driver.restore();
          break;
        default:
          expect_comes_back(driver.sequence(), driver.remembered(), other);
      }
      ASSERT_EQ(wrong, "");
      ASSERT_FALSE(HasFatalFailure()) << "story " << story << ", page " << page;
    }
  }
}

}  // namespace
}  // namespace kvant::state
