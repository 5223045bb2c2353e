// Round trips: what is written comes back, goes on, and is the same file by every route.
#include "kvant/state/state_file.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "kvant/state/declarations.h"
#include "kvant/state/live.h"
#include "kvant/state/state_file_writer.h"
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

constexpr std::array kForms = {StateForm::kCompact, StateForm::kFull};

std::shared_ptr<PagePool> make_pool(tensor::Device& device, const Layout& layout,
                                    const PlanRequest& request) {
  PlanRequest with_room = request;
  with_room.n_sequences = 3;
  with_room.n_snapshots = 4;
  return PagePool::create(device, make_plan(layout, with_room).value()).value();
}

struct Place {
  std::int64_t page = 8;
  std::int64_t position = 0;
};

class StateFileAt : public ::testing::TestWithParam<Place> {};

TEST_P(StateFileAt, ComesBackIntoAnyPoolAndGoesOn) {
  const auto [page, position] = GetParam();
  const Layout layout = test::full_layout(page);
  for (const StateForm form : kForms) {
    for (const std::int64_t from_rollback : {0, 3}) {
      for (const std::int64_t to_rollback : {0, 1, 5}) {
        TestDevice device;
        Story source(make_pool(device, layout,
                               {.context = Tokens(150), .max_rollback = Tokens(from_rollback)}),
                     Tokens(150));
        if (position > 0) source.step(position);
        const FileBytes file = file_of(source.sequence, form);

        const auto pool =
            make_pool(device, layout,
                      {.context = Tokens(position + 20), .max_rollback = Tokens(to_rollback)});
        Story story(pool, Tokens(position + 12));
        const Status status = story.load(file, source.remembered);
        ASSERT_TRUE(status) << describe(status.error());
        ASSERT_EQ(story.compare(), "");
        EXPECT_EQ(story.sequence.rollback_depth(), Tokens(0));
        EXPECT_EQ(story.sequence.lineage(), Lineage::kCold);
        EXPECT_EQ(file_of(story.sequence, form), file);
        story.step(3);
        ASSERT_EQ(story.compare(), "");
        story.run(9);
        ASSERT_EQ(story.compare(), "");
        source.run(12);
        EXPECT_EQ(file_of(story.sequence, form), file_of(source.sequence, form));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Positions, StateFileAt,
                         ::testing::Values(Place{8, 0}, Place{8, 1}, Place{8, 2}, Place{8, 7},
                                           Place{8, 8}, Place{8, 9}, Place{8, 127}, Place{8, 128},
                                           Place{8, 129}, Place{128, 0}, Place{128, 1},
                                           Place{128, 2}, Place{128, 7}, Place{128, 8},
                                           Place{128, 9}, Place{128, 127}, Place{128, 128},
                                           Place{128, 129}),
                         [](const auto& place) {
                           return "Page" + std::to_string(place.param.page) + "Position" +
                                  std::to_string(place.param.position);
                         });

TEST(StateFile, StepsAfterLoadingCanBeTakenBackAsFarAsTheyGo) {
  TestDevice device;
  const Layout layout = test::full_layout(4);
  const auto pool = make_pool(device, layout, {.context = Tokens(40), .max_rollback = Tokens(4)});
  Story source(pool, Tokens(40));
  source.step(13);
  Story story(pool, Tokens(40));
  ASSERT_TRUE(story.load(file_of(source.sequence), source.remembered));
  EXPECT_EQ(story.sequence.rollback(Tokens(1)).error().code, ErrorCode::kRollbackBound);
  const FileBytes at_15 = [&] {
    story.run(2);
    return file_of(story.sequence);
  }();
  story.run(3);
  ASSERT_TRUE(story.sequence.rollback(Tokens(3)));
  EXPECT_EQ(file_of(story.sequence), at_15);
  ASSERT_TRUE(story.sequence.rollback(Tokens(1)));
  EXPECT_EQ(story.sequence.position(), Position(14));
}

// One file for one state, whatever the way to it, the history kept beside it, and the bytes that
// the memory held before.
TEST(StateFile, IsTheSameByEveryRoute) {
  const Layout layout = test::full_layout(4);
  for (const std::int64_t position : {0, 1, 2, 3, 4, 5, 8, 11, 16, 23}) {
    for (const StateForm form : kForms) {
      TestDevice nan_device;
      const auto pool =
          make_pool(nan_device, layout, {.context = Tokens(40), .max_rollback = Tokens(3)});
      Story steps(pool, Tokens(40));
      steps.run(position);
      const FileBytes expected = file_of(steps.sequence, form);
      const auto expect_same = [&](const Sequence& sequence, const char* route) {
        EXPECT_TRUE(file_of(sequence, form) == expected) << route << " to " << position;
      };

      Story one_step(make_pool(tensor::host_device(), layout, {.context = Tokens(90)}), Tokens(80));
      if (position > 0) one_step.step(position);
      expect_same(one_step.sequence, "one step in zeroed memory");

      expect_same(steps.sequence.fork().value(), "a fork");
      const Snapshot snapshot = steps.sequence.snapshot().value();
      Story ahead = std::move(steps);
      ahead.run(3);
      ASSERT_TRUE(ahead.sequence.rollback(Tokens(3)));
      expect_same(ahead.sequence, "three positions taken back");
      ASSERT_TRUE(ahead.sequence.reset(KeptPages::kAll));
      ahead.remembered = {};
      ahead.run(30);
      ASSERT_TRUE(ahead.sequence.restore(snapshot));
      expect_same(ahead.sequence, "another run and a restore");
      Story other_pool(
          make_pool(nan_device, layout, {.context = Tokens(50), .max_rollback = Tokens(1)}),
          Tokens(50));
      other_pool.step(7);
      ASSERT_TRUE(other_pool.sequence.restore(snapshot));
      expect_same(other_pool.sequence, "a restore in another pool");
      ASSERT_TRUE(load_state(other_pool.sequence, expected, fingerprint_for_tests()));
      expect_same(other_pool.sequence, "a file");
    }
  }
}

// A layout and how far to go in it.
struct Declared {
  const char* name;
  Layout layout;
  std::int64_t context;
};

std::vector<Declared> declared_layouts() {
  DeepSeekV4StateShape deepseek{.n_layers = Layers(3),
                                .compress_ratios = {0, 4, 128},
                                .head_dim = Elements(8),
                                .index_head_dim = Elements(4)};
  return {
      {"all disciplines", test::full_layout(4), 30},
      {"DeepSeek-V4", deepseek_v4_layout(deepseek).value().layout, 270},
      {"sliding windows",
       gqa_layout({.kv_heads = {Heads(2), Heads(1), Heads(3)},
                   .windows = {Tokens(0), Tokens(7), Tokens(1)},
                   .head_dim = Elements(3),
                   .page_positions = Tokens(4)}),
       30},
      {"Mamba-2",
       mamba2_layout(
           {.n_layers = Layers(2), .n_ssm_heads = 2, .ssm_head_dim = 4, .state_size = Elements(3)}),
       5}};
}

TEST(StateFile, CompactSectionsAreExactlyTheLiveBytes) {
  for (const Declared& declared : declared_layouts()) {
    TestDevice device;
    const auto pool = make_pool(device, declared.layout,
                                {.context = Tokens(declared.context), .max_rollback = Tokens(2)});
    Story story(pool, Tokens(declared.context));
    for (std::int64_t position = 0; position <= declared.context; ++position) {
      if (position > 0) story.step(1);
      const auto writer = StateFileWriter::create(story.sequence.snapshot().value(), {}).value();
      EXPECT_EQ(writer.payload_bytes(), live_bytes(pool->plan(), Position(position)))
          << declared.name << " at " << position;
    }
  }
}

TEST(StateFile, CompactFilesMoveLiveBytesOnly) {
  for (const Declared& declared : declared_layouts()) {
    TestDevice device;
    const auto pool = make_pool(device, declared.layout,
                                {.context = Tokens(declared.context), .max_rollback = Tokens(2)});
    Story story(pool, Tokens(declared.context));
    story.step(declared.context - 3);
    const Bytes live = live_bytes(pool->plan(), story.sequence.position());
    std::int64_t copied = device.copied_bytes();
    const FileBytes file = file_of(story.sequence);
    EXPECT_EQ(device.copied_bytes() - copied, live.value()) << declared.name;
    copied = device.copied_bytes();
    Story loaded(pool, Tokens(declared.context));
    ASSERT_TRUE(loaded.load(file, story.remembered)) << declared.name;
    EXPECT_EQ(device.copied_bytes() - copied, live.value()) << declared.name;
    EXPECT_EQ(loaded.compare(), "") << declared.name;
  }
}

TEST(StateFile, FullSectionsAreWholePagesAndTheBlockWithoutHistory) {
  for (const Declared& declared : declared_layouts()) {
    TestDevice device;
    const auto pool = make_pool(device, declared.layout,
                                {.context = Tokens(declared.context), .max_rollback = Tokens(2)});
    const Geometry geometry = make_geometry(declared.layout).value();
    Story story(pool, Tokens(declared.context));
    story.step(declared.context);
    const FileBytes bytes = file_of(story.sequence, StateForm::kFull);
    const StateFile file = StateFile::open(bytes).value();
    for (const FileSection& section : file.header().sections) {
      const bool is_page = section.kind == SectionKind::kPage;
      EXPECT_EQ(section.bytes,
                is_page ? geometry.groups[section.group].page_bytes : geometry.block_bytes)
          << declared.name;
    }
    Story loaded(pool, Tokens(declared.context));
    ASSERT_TRUE(loaded.load(bytes, story.remembered)) << declared.name;
    EXPECT_EQ(loaded.compare(), "") << declared.name;
  }
}

// The block of an empty state in the full form is the pool's block of initial values.
TEST(StateFile, DeadBytesOfTheFullFormAreInitialValues) {
  TestDevice device;
  const Layout layout = test::full_layout(4);
  const auto pool = make_pool(device, layout, {.context = Tokens(16)});
  Story story(pool, Tokens(16));
  const FileBytes bytes = file_of(story.sequence, StateForm::kFull);
  const StateFile file = StateFile::open(bytes).value();
  ASSERT_EQ(file.header().sections.size(), 1U);
  const FileSection& section = file.header().sections.front();
  const std::byte* block = pool->initial_block().data();
  for (const Placed& placed : pool->geometry().components) {
    if (placed.group >= 0) continue;
    const auto at = placed.offset.value();
    EXPECT_EQ(
        std::memcmp(bytes.data() + section.offset.value() + at, block + at, placed.bytes.size()), 0)
        << name_of(placed.spec.kind);
  }
}

TEST(StateFile, HoldsTokensAndLogitsBesideTheState) {
  TestDevice device;
  const auto pool = make_pool(device, test::mixed_layout(4), {.context = Tokens(16)});
  Story story(pool, Tokens(16));
  story.step(3);
  const std::vector<TokenId> tokens = {5, 0, 77};
  const std::vector<float> logits = {0.5F, -1.0F};
  auto writer = StateFileWriter::create(story.sequence.snapshot().value(),
                                        {.tokens = tokens, .logits = logits})
                    .value();
  FileBytes bytes(writer.bytes().size());
  ASSERT_TRUE(writer.write(std::span(bytes)));
  const StateFile file = StateFile::open(bytes).value();
  EXPECT_EQ(file.tokens().value(), tokens);
  EXPECT_EQ(file.logits().value(), logits);
  EXPECT_EQ(file.payload_bytes(), writer.payload_bytes());
  EXPECT_EQ(file.payload_bytes(), live_bytes(pool->plan(), Position(3)));

  const FileBytes bare = file_of(story.sequence);
  const StateFile without = StateFile::open(bare).value();
  EXPECT_TRUE(without.tokens().value().empty());
  EXPECT_TRUE(without.logits().value().empty());
}

TEST(StateFile, SaysWhatItIs) {
  TestDevice device;
  const Layout layout = test::full_layout(8);
  Story story(make_pool(device, layout, {.context = Tokens(40)}), Tokens(40));
  story.step(19);
  const FileBytes bytes = file_of(story.sequence, StateForm::kFull);
  EXPECT_TRUE(StateFile::is_state_file(bytes));
  const StateFile file = StateFile::open(bytes).value();
  EXPECT_EQ(file.bytes().size(), bytes.size());
  const StateFileHeader& header = file.header();
  EXPECT_EQ(header.form, StateForm::kFull);
  EXPECT_EQ(header.lineage, Lineage::kCold);
  EXPECT_EQ(header.fingerprint, fingerprint_for_tests());
  EXPECT_EQ(header.position, Position(19));
  EXPECT_EQ(header.age, 19);
  EXPECT_EQ(header.layout, layout);
  EXPECT_EQ(header.runs, std::vector<PositionRun>{{}});
  EXPECT_TRUE(header.pieces.empty());
  for (const FileSection& section : header.sections) {
    EXPECT_EQ(section.offset.value() % 64, 0);
    EXPECT_EQ(xxh3_128(std::span(bytes).subspan(section.offset.size(), section.bytes.size())),
              section.checksum);
  }
}

// Bytes at an odd address: of a file mapped behind something else, say.
TEST(StateFile, MayLieAtAnyAddress) {
  TestDevice device;
  Story story(make_pool(device, test::full_layout(4), {.context = Tokens(16)}), Tokens(16));
  story.step(9);
  const FileBytes file = file_of(story.sequence);
  for (std::size_t shift = 1; shift < 8; ++shift) {
    FileBytes moved(file.size() + shift);
    std::ranges::copy(file, moved.begin() + static_cast<std::ptrdiff_t>(shift));
    Story loaded(story.sequence.pool(), Tokens(16));
    ASSERT_TRUE(loaded.load(std::span(moved).subspan(shift), story.remembered));
    EXPECT_EQ(loaded.compare(), "");
  }
}

TEST(StateFile, LoadingEndsAnOpenStepAndClearsPoison) {
  TestDevice device;
  const auto pool = make_pool(device, test::full_layout(4), {.context = Tokens(16)});
  Story source(pool, Tokens(16));
  source.step(6);
  const FileBytes file = file_of(source.sequence);
  Story open(pool, Tokens(16));
  open.step(2);
  ASSERT_TRUE(open.sequence.prepare(Tokens(3)));
  ASSERT_TRUE(open.load(file, source.remembered));
  EXPECT_EQ(open.compare(), "");
  ASSERT_TRUE(open.sequence.prepare(Tokens(3)));
  test::scribble(open.sequence, 6);
  open.sequence.poison();
  ASSERT_TRUE(open.load(file, source.remembered));
  EXPECT_EQ(open.compare(), "");
}

TEST(StateFile, ADerivedStateStaysDerived) {
  TestDevice device;
  const auto pool = make_pool(device, test::full_layout(4), {.context = Tokens(16)});
  Story story(pool, Tokens(16));
  story.step(5);
  const FileBytes cold = file_of(story.sequence);
  story.sequence.mark_derived();
  story.remembered.derived = true;
  const FileBytes derived = file_of(story.sequence);
  EXPECT_NE(derived, cold);
  Story loaded(pool, Tokens(16));
  ASSERT_TRUE(loaded.load(derived, story.remembered));
  EXPECT_EQ(loaded.sequence.lineage(), Lineage::kDerived);
  EXPECT_EQ(loaded.compare(), "");
}

// After loading, later steps take nothing from the heap, as before.
TEST(StateFile, LoadingKeepsTheRoomOfAPlannedSequence) {
  TestDevice device;
  const auto pool = make_pool(device, test::full_layout(4), {.context = Tokens(64)});
  Story source(pool, Tokens(64));
  source.step(6);
  Story story(pool, Tokens(64));
  const Bytes before = story.sequence.table_bytes();
  ASSERT_TRUE(story.load(file_of(source.sequence), source.remembered));
  EXPECT_EQ(story.sequence.table_bytes(), before);
  EXPECT_EQ(story.sequence.resident_bytes(), source.sequence.resident_bytes());
}

}  // namespace
}  // namespace kvant::state
