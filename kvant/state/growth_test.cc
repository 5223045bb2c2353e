// Larger contexts without recomputation: growth within a plan and migration to another.
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "kvant/state/declarations.h"
#include "kvant/state/sequence.h"
#include "tests/support/state_driver.h"
#include "tests/support/state_worlds.h"
#include "tests/support/test_device.h"

namespace kvant::state {
namespace {

using test::compare_all;
using test::Remembered;
using test::Stamps;
using test::TestDevice;

std::shared_ptr<PagePool> make_pool(TestDevice& device, const Layout& layout, std::int64_t context,
                                    std::int64_t max_rollback = 0) {
  return PagePool::create(device, make_plan(layout, {.context = Tokens(context),
                                                     .n_sequences = 2,
                                                     .n_snapshots = 2,
                                                     .max_rollback = Tokens(max_rollback)})
                                      .value())
      .value();
}

Sequence make_sequence(TestDevice& device, const Layout& layout, std::int64_t context,
                       std::int64_t max_rollback = 0) {
  return Sequence::create(make_pool(device, layout, context, max_rollback), Tokens(context))
      .value();
}

void run(Sequence& sequence, Remembered& remembered, const Stamps& stamps) {
  const Position start = sequence.position();
  const Tokens n(static_cast<std::int64_t>(stamps.size()));
  ASSERT_TRUE(sequence.prepare(n));
  remembered.open_stamps = stamps;
  ASSERT_EQ(test::write_step(sequence, remembered, test::Versions::kAll), "");
  ASSERT_TRUE(sequence.commit(start, n));
  test::remember(remembered, stamps);
}

Stamps stamps_of(std::int64_t n) {
  Stamps stamps;
  for (std::int64_t i = 0; i < n; ++i) stamps.push_back(i * i % 1009);
  return stamps;
}

Layout deepseek_layout() {
  return deepseek_v4_layout({.n_layers = Layers(3),
                             .compress_ratios = {0, 4, 128},
                             .head_dim = Elements(4),
                             .index_head_dim = Elements(2)})
      .value()
      .layout;
}

class Migration : public ::testing::TestWithParam<std::int64_t> {};

// From contexts below the window too, and from below the first compressed row.
TEST_P(Migration, TakesEverythingOverAndOldSnapshotsRestoreOnBothSides) {
  for (const std::int64_t position : {GetParam(), GetParam() / 2, std::int64_t{0}}) {
    TestDevice device;
    std::optional<Sequence> small = make_sequence(device, deepseek_layout(), GetParam());
    Remembered remembered;
    if (position > 0) run(*small, remembered, stamps_of(position));
    const Remembered then = remembered;
    std::optional<Snapshot> snapshot = small->snapshot().value();
    if (position < GetParam()) run(*small, remembered, {5});

    Sequence large = make_sequence(device, deepseek_layout(), GetParam() + 300);
    ASSERT_TRUE(large.migrate_from(*small, *snapshot));
    EXPECT_EQ(compare_all(large, remembered), "");
    EXPECT_EQ(compare_all(*small, remembered), "");  // untouched
    ASSERT_TRUE(small->restore(*snapshot));
    EXPECT_EQ(compare_all(*small, then), "");
    small.reset();

    run(large, remembered, stamps_of(290));  // beyond the old context
    EXPECT_EQ(compare_all(large, remembered), "");
    ASSERT_TRUE(large.restore(*snapshot));
    snapshot.reset();
    EXPECT_EQ(compare_all(large, then), "");
    Remembered back = then;
    run(large, back, stamps_of(129));
    EXPECT_EQ(compare_all(large, back), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Contexts, Migration,
                         ::testing::Values(1, 2, 3, 4, 11, 127, 128, 129, 256));

TEST(Migration, KeepsWhatCanBeTakenBackAsFarAsBothSidesCan) {
  for (const std::int64_t depth : {0, 1, 3}) {
    TestDevice device;
    Sequence small = make_sequence(device, test::full_layout(4), 20, 2);
    Remembered remembered;
    run(small, remembered, stamps_of(9));
    run(small, remembered, {77, 78});
    Sequence large = make_sequence(device, test::full_layout(4), 40, depth);
    ASSERT_TRUE(large.migrate_from(small));
    EXPECT_EQ(large.rollback_depth(), Tokens(std::min<std::int64_t>(depth, 2)));
    ASSERT_TRUE(large.rollback(large.rollback_depth()));
    const auto left = 11 - std::min<std::int64_t>(depth, 2);
    Stamps stamps(remembered.stamps.begin(), remembered.stamps.begin() + left);
    EXPECT_EQ(compare_all(large, test::remembered_of(stamps)), "");
  }
}

// A pair of sequences, one larger, both with contents.
struct Pair {
  explicit Pair(TestDevice& device, const Layout& target = test::full_layout(4))
      : small(make_sequence(device, test::full_layout(4), 20)),
        large(make_sequence(device, target, 40)) {
    run(small, in_small, {1, 2, 3, 4, 5, 6, 7});
    run(large, in_large, {8, 9});
  }

  void expect_unchanged() {
    EXPECT_EQ(compare_all(small, in_small), "");
    EXPECT_EQ(compare_all(large, in_large), "");
  }

  Sequence small;
  Sequence large;
  Remembered in_small;
  Remembered in_large;
};

TEST(Migration, EachRefusalHasItsCodeAndChangesNeitherSide) {
  TestDevice device;
  Pair pair(device);
  const Error context = pair.small.migrate_from(pair.large).error();
  EXPECT_EQ(context, (Error{.code = ErrorCode::kMigrationContext, .actual = 20, .expected = 40}));
  EXPECT_EQ(pair.large.migrate_from(pair.large).error().code, ErrorCode::kMigrationContext);

  const Snapshot ahead = [&] {
    Sequence fork = pair.small.fork().value();
    Remembered remembered = pair.in_small;
    run(fork, remembered, {70});
    return fork.snapshot().value();
  }();
  EXPECT_EQ(pair.large.migrate_from(pair.small, ahead).error(),
            (Error{.code = ErrorCode::kMigrationSnapshotPosition, .actual = 8, .expected = 7}));
  const Snapshot foreign = make_sequence(device, test::mixed_layout(4), 8).snapshot().value();
  EXPECT_EQ(pair.large.migrate_from(pair.small, foreign).error().code,
            ErrorCode::kMigrationSnapshotPlanMismatch);
  pair.expect_unchanged();

  ASSERT_TRUE(pair.small.prepare(Tokens(1)));
  EXPECT_EQ(pair.large.migrate_from(pair.small).error().code, ErrorCode::kStepOpen);
  pair.small.poison();
  EXPECT_EQ(pair.large.migrate_from(pair.small).error().code, ErrorCode::kPoisoned);
  EXPECT_EQ(compare_all(pair.large, pair.in_large), "");
}

TEST(Migration, AnotherLayoutIsNamedByItsFirstDifference) {
  TestDevice device;
  Layout other = test::full_layout(4);
  other.layers[1].components[1].row_width = Elements(3);
  Pair pair(device, other);
  const Error error = pair.large.migrate_from(pair.small).error();
  EXPECT_EQ(error.code, ErrorCode::kMigrationPlanMismatch);
  EXPECT_EQ(error.layer, 1);
  EXPECT_EQ(error.component, ComponentKind::kCompressedKv);
  pair.expect_unchanged();
  const Error restored = pair.large.restore(pair.small.snapshot().value()).error();
  EXPECT_EQ(restored.code, ErrorCode::kSnapshotPlanMismatch);
  EXPECT_EQ(restored.layer, 1);
  pair.expect_unchanged();
}

TEST(Migration, SuccessClearsTheDestinationsPoison) {
  TestDevice device;
  Pair pair(device);
  ASSERT_TRUE(pair.large.prepare(Tokens(1)));
  pair.large.poison();
  ASSERT_TRUE(pair.large.migrate_from(pair.small));
  EXPECT_EQ(compare_all(pair.large, pair.in_small), "");
}

TEST(Migration, EveryDeviceFailureChangesNeitherSide) {
  std::int64_t n_failed = 0;
  for (std::int64_t call = 0;; ++call) {
    TestDevice device;
    Pair pair(device);
    const Bytes used = pair.large.pool()->used();
    device.fail_call(call, TestDevice::Failing::kFromThenOn);
    const Status done = pair.large.migrate_from(pair.small);
    const bool failed = device.n_failures() > 0;
    device.stop_failing();
    ASSERT_EQ(done.has_value(), !failed);
    if (done) break;
    ++n_failed;
    pair.expect_unchanged();
    EXPECT_EQ(pair.large.pool()->used(), used);
  }
  EXPECT_GT(n_failed, 10);
}

TEST(Migration, AFullPoolChangesNeitherSide) {
  TestDevice device;
  Pair pair(device);
  std::vector<PoolRef> held(1);
  std::vector<std::int64_t> counts(pair.large.pool()->geometry().n_classes(), 0);
  counts[0] = 1;
  std::vector<std::vector<PoolRef>> all;
  while (pair.large.pool()->take(counts, held)) all.push_back(std::exchange(held, {PoolRef()}));
  EXPECT_EQ(pair.large.migrate_from(pair.small).error().code, ErrorCode::kPoolExhausted);
  pair.expect_unchanged();
}

TEST(Growth, WithinAPlanCopiesNothing) {
  TestDevice device;
  const auto pool = make_pool(device, test::full_layout(4), 40);
  Sequence sequence = Sequence::create(pool, Tokens(6)).value();
  Remembered remembered;
  run(sequence, remembered, {1, 2, 3, 4, 5, 6});
  const Snapshot snapshot = sequence.snapshot().value();
  EXPECT_EQ(sequence.prepare(Tokens(1)).error().code, ErrorCode::kContextExhausted);
  EXPECT_EQ(sequence.grow(Tokens(6)).error().code, ErrorCode::kMigrationContext);
  EXPECT_EQ(sequence.grow(Tokens(41)).error(),
            (Error{.code = ErrorCode::kContextBound, .actual = 41, .expected = 40}));
  const std::int64_t copied = device.copied_bytes();
  ASSERT_TRUE(sequence.grow(Tokens(40)));
  EXPECT_EQ(device.copied_bytes(), copied);
  EXPECT_EQ(sequence.capacity(), Tokens(40));
  const Remembered then = remembered;
  run(sequence, remembered, stamps_of(34));
  EXPECT_EQ(compare_all(sequence, remembered), "");
  ASSERT_TRUE(sequence.restore(snapshot));
  EXPECT_EQ(compare_all(sequence, then), "");
}

}  // namespace
}  // namespace kvant::state
