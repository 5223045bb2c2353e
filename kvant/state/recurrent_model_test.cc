// A declaration that no model of this library uses runs through plan, steps and snapshots as it is:
// nothing but the declaration was written for it.
#include <gtest/gtest.h>

#include <limits>

#include "kvant/state/declarations.h"
#include "tests/support/state_driver.h"
#include "tests/support/state_worlds.h"
#include "tests/support/test_device.h"

namespace kvant::state {
namespace {

TEST(RecurrentModel, AMamba2StateStepsForksAndComesBack) {
  const Layout layout = mamba2_layout(
      {.n_layers = Layers(2), .n_ssm_heads = 3, .ssm_head_dim = 2, .state_size = Elements(5)});
  const Plan plan =
      make_plan(layout, {.context = Tokens(1000), .n_sequences = 2, .n_snapshots = 2}).value();
  test::TestDevice device;
  const auto pool = PagePool::create(device, plan).value();
  test::StateDriver driver(pool, Tokens(1000), test::StateDriver::Exhaustion::kImpossible);
  EXPECT_EQ(driver.step(300), "");
  EXPECT_EQ(driver.snapshot(), "");
  EXPECT_EQ(driver.step(1), "");
  EXPECT_EQ(driver.fork(), "");
  EXPECT_EQ(driver.step(7), "");
  EXPECT_EQ(driver.compare(), "");
  EXPECT_EQ(driver.prepare(4), "");
  EXPECT_EQ(driver.poison(), "");
  EXPECT_EQ(driver.restore(), "");
  EXPECT_EQ(driver.compare(), "");
  driver.swap();
  EXPECT_EQ(driver.step(699), "");
  EXPECT_EQ(driver.compare(), "");
  EXPECT_EQ(driver.sequence().resident_bytes(), plan.geometry.block_bytes);
}

TEST(RecurrentModel, AFreshDeepSeekV4BlockHasZeroRowsAndScoresOfMinusInfinity) {
  const Plan plan = plan_deepseek_v4({.n_layers = Layers(3),
                                      .compress_ratios = {0, 4, 128},
                                      .head_dim = Elements(33),  // rows that end inside a float
                                      .index_head_dim = Elements(16),
                                      .window = Tokens(3)},
                                     {.context = Tokens(128)})
                        .value();
  test::TestDevice device;
  const auto pool = PagePool::create(device, plan).value();
  const PoolRef block = pool->initial_block();
  for (const Placed& placed : pool->geometry().components) {
    if (placed.group >= 0) continue;
    const std::byte* bytes = block.data() + placed.offset.value();
    if (placed.spec.kind == ComponentKind::kWindowKv) {
      EXPECT_EQ(placed.bytes, Bytes(3 * 33 * 2));
      for (std::int64_t i = 0; i < placed.bytes.value(); ++i) EXPECT_EQ(bytes[i], std::byte{0});
      continue;
    }
    for (std::int64_t i = 0; i < placed.bytes.value(); i += 4) {
      EXPECT_EQ(test::load(bytes + i, tensor::Dtype::kF32), placed.spec.initial_value);
    }
  }
  EXPECT_EQ(plan.geometry.find(LayerIndex(2), ComponentKind::kMainScoreState)->spec.initial_value,
            -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace kvant::state
