#include "kvant/state/pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "kvant/state/declarations.h"
#include "kvant/state/sequence.h"
#include "tests/support/reference_state.h"
#include "tests/support/state_worlds.h"
#include "tests/support/test_device.h"

namespace kvant::state {
namespace {

using test::mixed_layout;
using test::TestDevice;

Plan small_plan(std::int64_t context = 8) {
  return make_plan(mixed_layout(4), {.context = Tokens(context)}).value();
}

// One object of class `c` for each entry.
Result<std::vector<PoolRef>> take(PagePool& pool, std::size_t c, std::int64_t n) {
  std::vector<std::int64_t> counts(pool.geometry().n_classes(), 0);
  counts[c] = n;
  std::vector<PoolRef> out(static_cast<std::size_t>(n));
  KVANT_TRY(pool.take(counts, out));
  return out;
}

TEST(PagePool, ReservesWhatThePlanSaysAndUsesTheInitialBlock) {
  TestDevice device;
  const Plan plan = small_plan();
  const auto pool = PagePool::create(device, plan).value();
  EXPECT_EQ(pool->reserved(), plan.address_bytes);
  EXPECT_EQ(pool->budget(), plan.pool_bytes);
  EXPECT_EQ(pool->used(), plan.geometry.block_bytes);
}

TEST(PagePool, ADeviceThatRoundsIsAnAccountingError) {
  TestDevice device;
  device.round_up_to(4096);
  const Plan plan = small_plan();
  const auto pool = PagePool::create(device, plan);
  ASSERT_FALSE(pool);
  EXPECT_EQ(pool.error().code, ErrorCode::kAccounting);
  EXPECT_EQ(pool.error().expected, static_cast<std::uint64_t>(plan.address_bytes.value()));
  EXPECT_EQ(pool.error().actual % 4096, 0u);
  EXPECT_GT(pool.error().actual, pool.error().expected);
}

TEST(PagePool, AFullContextUsesThePlannedBytesExactly) {
  for (const std::int64_t context : {1, 4, 7, 8}) {
    TestDevice device;
    const Plan plan = small_plan(context);
    const auto pool = PagePool::create(device, plan).value();
    Sequence sequence = Sequence::create(pool, Tokens(context)).value();
    ASSERT_TRUE(sequence.prepare(Tokens(context)));
    EXPECT_EQ(pool->used(), plan.pool_bytes);
    EXPECT_EQ(sequence.resident_bytes(), plan.page_bytes + plan.geometry.block_bytes);
    EXPECT_EQ(sequence.table_bytes(), plan.table_bytes);
  }
}

TEST(PagePool, TakesAllOrNothing) {
  TestDevice device;
  const auto pool = PagePool::create(device, small_plan()).value();
  const Bytes before = pool->used();
  const Bytes left = pool->budget() - before;
  for (std::size_t c = 0; c < pool->geometry().n_classes(); ++c) {
    const Bytes object = pool->geometry().class_bytes(c);
    const std::int64_t n_fit = left.value() / object.value();
    const auto refused = take(*pool, c, n_fit + 1);
    ASSERT_FALSE(refused) << c;
    EXPECT_EQ(refused.error().code, ErrorCode::kPoolExhausted);
    EXPECT_EQ(refused.error().actual, static_cast<std::uint64_t>((object * (n_fit + 1)).value()));
    EXPECT_EQ(refused.error().expected, static_cast<std::uint64_t>(left.value()));
    EXPECT_EQ(pool->used(), before);
    EXPECT_TRUE(take(*pool, c, n_fit));
    EXPECT_EQ(pool->used(), before);
  }
}

TEST(PagePool, AnObjectLivesAsLongAsItsLastReference) {
  TestDevice device;
  const auto pool = PagePool::create(device, small_plan()).value();
  const Bytes before = pool->used();
  PoolRef first = std::move(take(*pool, 0, 1).value()[0]);
  EXPECT_TRUE(first.is_unique());
  PoolRef second = first;
  EXPECT_EQ(second, first);
  EXPECT_EQ(second.data(), first.data());
  EXPECT_FALSE(first.is_unique());
  first = PoolRef();
  EXPECT_TRUE(second.is_unique());
  EXPECT_EQ(pool->used(), before + pool->geometry().class_bytes(0));
  second = PoolRef();
  EXPECT_EQ(pool->used(), before);
}

TEST(PagePool, FreedMemoryIsKeptForTheNextTakerAndReusedFirst) {
  TestDevice device;
  const auto pool = PagePool::create(device, small_plan()).value();
  const std::byte* address = nullptr;
  {
    const auto taken = take(*pool, 0, 1).value();
    address = taken[0].data();
  }
  EXPECT_GT(pool->resident(), pool->used());
  EXPECT_EQ(take(*pool, 0, 1).value()[0].data(), address);
  ASSERT_TRUE(pool->trim());
  EXPECT_EQ(pool->resident(), pool->used());
}

TEST(PagePool, KeptMemoryOfOneClassMakesRoomForAnother) {
  TestDevice device;
  const auto pool = PagePool::create(device, small_plan()).value();
  const auto fill = [&](std::size_t c) {
    const auto left = (pool->budget() - pool->used()).value();
    return take(*pool, c, left / pool->geometry().class_bytes(c).value()).value();
  };
  for (int round = 0; round < 3; ++round) {
    for (std::size_t c = 0; c < pool->geometry().n_classes(); ++c) {
      const auto taken = fill(c);
      EXPECT_FALSE(taken.empty());
      EXPECT_LE(pool->resident(), pool->budget());
    }
  }
}

TEST(PagePool, AFailureToGiveMemoryBackTakesNothing) {
  TestDevice device;
  const auto pool = PagePool::create(device, small_plan()).value();
  const auto left = (pool->budget() - pool->used()).value();
  const std::int64_t n_pages = left / pool->geometry().class_bytes(0).value();
  const std::int64_t n_blocks = left / pool->geometry().class_bytes(2).value();
  {
    const auto taken = take(*pool, 0, n_pages).value();
  }
  const Bytes used = pool->used();
  device.fail_call(0, TestDevice::Failing::kOnce);
  EXPECT_EQ(take(*pool, 2, n_blocks).error().code, ErrorCode::kDeviceFailed);
  EXPECT_EQ(pool->used(), used);
  EXPECT_TRUE(take(*pool, 2, n_blocks));
}

// Bytes of a reservation that have memory behind them.
std::int64_t resident_of(const std::byte* begin, Bytes bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(begin) / page * page;
  std::vector<unsigned char> pages((bytes.size() + 2 * page - 1) / page);
  EXPECT_EQ(::mincore(reinterpret_cast<void*>(address), pages.size() * page - page, pages.data()),
            0);
  std::int64_t n = 0;
  for (const unsigned char state : pages) n += state & 1;
  return n * static_cast<std::int64_t>(page);
}

TEST(PagePool, AMillionPlannedPositionsCostOnlyWhatIsWritten) {
  // 24 layers of the LFM2-8B shape at 1,048,576 positions: 12 GiB planned, 1,000 written.
  Lfm2StateShape shape{.kv_heads = std::vector<Heads>(24, Heads(0)),
                       .head_dim = Elements(64),
                       .hidden_size = Elements(2048)};
  for (const std::size_t layer : {2u, 6u, 10u, 14u, 18u, 21u}) shape.kv_heads[layer] = Heads(8);
  const Plan plan =
      make_plan(lfm2_layout(shape), {.context = Tokens(1 << 20), .max_step = Tokens(1000)}).value();
  EXPECT_GT(plan.pool_bytes, Bytes(std::int64_t{12} << 30));
  const auto pool = PagePool::create(tensor::host_device(), plan).value();
  Sequence sequence = Sequence::create(pool, Tokens(1 << 20)).value();
  ASSERT_TRUE(sequence.prepare(Tokens(1000)));
  ASSERT_EQ(test::write_step(sequence, {}, test::Stamps(1000, 5)), "");
  ASSERT_TRUE(sequence.commit(Position(0), Tokens(1000)));
  // Eight pages of the group and two blocks, and at most one system page more at each end.
  const std::int64_t needed =
      8 * plan.geometry.class_bytes(0).value() + 2 * plan.geometry.block_bytes.value();
  EXPECT_EQ(sequence.resident_bytes().value(), needed - plan.geometry.block_bytes.value());
  const auto keys = sequence.read_rows(LayerIndex(2), ComponentKind::kKeys).value();
  const std::int64_t resident = resident_of(keys.extents[0].page, plan.page_bytes);
  EXPECT_GE(resident, needed * 9 / 10);
  EXPECT_LE(resident, needed + 4 * 4096);
}

TEST(PagePool, AnEagerOneHasAllItsMemoryAndReturnsItToStepsWithoutAsking) {
  const Plan plan =
      make_plan(
          test::full_layout(4),
          {.context = Tokens(40), .n_sequences = 2, .n_snapshots = 3, .max_rollback = Tokens(2)})
          .value();
  TestDevice device;
  const auto lazy = PagePool::create(device, plan).value();
  EXPECT_EQ(lazy->resident(), plan.geometry.block_bytes);
  const auto eager = PagePool::create(device, plan, Commitment::kEager).value();
  EXPECT_EQ(eager->resident(), plan.pool_bytes);
  EXPECT_EQ(eager->used(), plan.geometry.block_bytes);
  Sequence sequence = Sequence::create(eager, Tokens(40)).value();
  device.fail_call(0, TestDevice::Failing::kFromThenOn);  // but copies are needed
  EXPECT_FALSE(sequence.prepare(Tokens(40)));
  device.stop_failing();
  ASSERT_TRUE(sequence.prepare(Tokens(40)));
  EXPECT_EQ(eager->resident(), plan.pool_bytes);
}

TEST(PagePool, AnEagerOneThatFailsIsReported) {
  const Plan plan = make_plan(test::full_layout(4), {.context = Tokens(9)}).value();
  for (std::int64_t k = 0;; ++k) {
    TestDevice device;
    device.fail_call(k, TestDevice::Failing::kOnce);
    const auto pool = PagePool::create(device, plan, Commitment::kEager);
    ASSERT_EQ(pool.has_value(), device.n_failures() == 0);
    if (pool) break;
  }
}

}  // namespace
}  // namespace kvant::state
