// Plans of published models against figures that others have published or counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "kvant/state/declarations.h"
#include "kvant/state/logical_buffers.h"

namespace kvant::state {
namespace {

using enum ComponentKind;

// The schedules of the two published models: two first layers, then 4 and 128 in turn.
DeepSeekV4StateShape published(std::int64_t n_layers, std::int64_t first_ratio) {
  DeepSeekV4StateShape shape{.n_layers = Layers(n_layers)};
  for (std::int64_t layer = 0; layer < n_layers; ++layer) {
    shape.compress_ratios.push_back(layer < 2 ? first_ratio : layer % 2 == 0 ? 4 : 128);
  }
  return shape;
}

DeepSeekV4StateShape flash() { return published(43, 0); }
DeepSeekV4StateShape pro() { return published(61, 128); }

Plan plan_of(const DeepSeekV4StateShape& shape, std::int64_t context) {
  return plan_deepseek_v4(shape, {.context = Tokens(context)}).value();
}

struct Figure {
  std::int64_t context, bytes;
};

TEST(PublishedPlans, DeepSeekV4FlashAtEveryContextOfTheTable) {
  for (const auto& [context, bytes] : {Figure{1, 12250112},
                                       {3, 12338176},
                                       {4, 12409088},
                                       {127, 18631424},
                                       {128, 18722816},
                                       {129, 18722816},
                                       {256, 19603456},
                                       {512, 21364736},
                                       {1024, 24887296},
                                       {4095, 45975296},
                                       {4096, 46022656},
                                       {8192, 74203136},
                                       {32768, 243286016},
                                       {65536, 468729856},
                                       {131072, 919617536},
                                       {262144, 1821392896},
                                       {524288, 3624943616},
                                       {1048576, 7232045056}}) {
    EXPECT_EQ(plan_of(flash(), context).logical_bytes, Bytes(bytes)) << context;
  }
}

TEST(PublishedPlans, DeepSeekV4ProAtEveryContextOfTheTable) {
  for (const auto& [context, bytes] : {Figure{1, 18772992},
                                       {128, 27966464},
                                       {129, 27966464},
                                       {256, 29227008},
                                       {512, 31748096},
                                       {1024, 36790272},
                                       {4096, 67043328},
                                       {8192, 107380736},
                                       {32768, 349405184},
                                       {65536, 672104448},
                                       {131072, 1317502976},
                                       {262144, 2608300032},
                                       {524288, 5189894144},
                                       {1048576, 10353082368}}) {
    EXPECT_EQ(plan_of(pro(), context).logical_bytes, Bytes(bytes)) << context;
  }
}

TEST(PublishedPlans, DeepSeekV4FollowsItsClosedForm) {
  for (std::int64_t context = 128; context <= 1048576; context += 128 * 97) {
    EXPECT_EQ(plan_of(flash(), context).logical_bytes, Bytes(17842176 + 6880 * context));
    EXPECT_EQ(plan_of(pro(), context).logical_bytes, Bytes(26705920 + 9848 * context));
  }
}

TEST(PublishedPlans, ContextsThatTheModelsDoNotHaveAreRefused) {
  EXPECT_EQ(plan_deepseek_v4(flash(), {.context = Tokens(0)}).error().code,
            ErrorCode::kEmptyContext);
  EXPECT_EQ(plan_deepseek_v4(flash(), {.context = Tokens(1048577)}).error().code,
            ErrorCode::kContextBound);
}

Bytes sum_of(const Plan& plan, std::initializer_list<ComponentKind> kinds, std::int64_t ratio) {
  Bytes sum{0};
  for (std::size_t i = 0; i < plan.components.size(); ++i) {
    for (const ComponentKind kind : kinds) {
      const bool counted = plan.components[i].kind == kind &&
                           (ratio == 0 || plan.geometry.components[i].spec.ratio == ratio);
      if (counted) sum += plan.components[i].logical_bytes;
    }
  }
  return sum;
}

TEST(PublishedPlans, PartsOfDeepSeekV4FlashAtAMillionPositions) {
  const Plan plan = plan_of(flash(), 1048576);
  const auto states = {kMainKvState, kMainScoreState, kIndexerKvState, kIndexerScoreState};
  EXPECT_EQ(sum_of(plan, {kWindowKv}, 0), Bytes(5636096));
  EXPECT_EQ(sum_of(plan, {kCompressedKv}, 4), Bytes(5637144576));
  EXPECT_EQ(sum_of(plan, {kCompressedKv}, 128), Bytes(167772160));
  EXPECT_EQ(sum_of(plan, {kIndexerKv}, 4), Bytes(1409286144));
  EXPECT_EQ(sum_of(plan, states, 0), Bytes(12206080));
  EXPECT_EQ(plan.logical_bytes - sum_of(plan, states, 0), Bytes(7219838976));
  EXPECT_EQ(sum_of(plan_of(pro(), 1048576), states, 0), Bytes(18710528));
}

TEST(PublishedPlans, ASnapshotOfDeepSeekV4OwnsTheSameAtAnyContext) {
  for (const std::int64_t context : {128, 129, 4096, 1048576}) {
    EXPECT_EQ(plan_of(flash(), context).logical_fixed_bytes(), Bytes(17842176));
    EXPECT_EQ(plan_of(pro(), context).logical_fixed_bytes(), Bytes(26705920));
  }
  // Below the window only the rows that can be written count.
  EXPECT_EQ(plan_of(flash(), 1).logical_fixed_bytes(), Bytes(43 * 1024 + 12206080));
  EXPECT_EQ(plan_of(flash(), 128).geometry.block_bytes, Bytes(17842176));
}

const LogicalBuffer* find(const std::vector<LogicalBuffer>& buffers, std::int64_t layer,
                          ComponentKind kind) {
  for (const LogicalBuffer& buffer : buffers) {
    if (buffer.layer == LayerIndex(layer) && buffer.kind == kind) return &buffer;
  }
  return nullptr;
}

std::string shape_of(const std::vector<LogicalBuffer>& buffers, std::int64_t layer,
                     ComponentKind kind) {
  const LogicalBuffer* buffer = find(buffers, layer, kind);
  return buffer == nullptr ? "none" : buffer->shape_text();
}

TEST(LogicalBuffers, OfDeepSeekV4FlashAreThoseOfHf2q) {
  const auto buffers = logical_buffers(plan_of(flash(), 1048576)).value();
  EXPECT_EQ(shape_of(buffers, 0, kWindowKv), "[128, 512]");
  EXPECT_EQ(shape_of(buffers, 0, kAttentionKv), "[128, 512]");
  EXPECT_EQ(shape_of(buffers, 0, kCompressedKv), "none");
  EXPECT_EQ(shape_of(buffers, 2, kAttentionKv), "[262272, 512]");
  EXPECT_EQ(shape_of(buffers, 2, kCompressedKv), "[262144, 512]");
  EXPECT_EQ(shape_of(buffers, 2, kIndexerKv), "[262144, 128]");
  EXPECT_EQ(shape_of(buffers, 2, kMainKvState), "[1, 8, 1024]");
  EXPECT_EQ(shape_of(buffers, 2, kIndexerScoreState), "[1, 8, 256]");
  EXPECT_EQ(shape_of(buffers, 3, kAttentionKv), "[8320, 512]");
  EXPECT_EQ(shape_of(buffers, 3, kCompressedKv), "[8192, 512]");
  EXPECT_EQ(shape_of(buffers, 3, kMainScoreState), "[1, 128, 512]");
  EXPECT_EQ(shape_of(buffers, 3, kIndexerKv), "none");
  EXPECT_EQ(find(buffers, 2, kAttentionKv)->dtype, tensor::Dtype::kBf16);
  EXPECT_EQ(find(buffers, 2, kMainKvState)->dtype, tensor::Dtype::kF32);
}

Bytes owned_bytes(const std::vector<LogicalBuffer>& buffers) {
  Bytes sum{0};
  for (const LogicalBuffer& buffer : buffers) {
    if (!buffer.view_offset) sum += buffer.bytes;
  }
  return sum;
}

TEST(LogicalBuffers, OfATinyModelSumUpWithoutItsViews) {
  const DeepSeekV4StateShape tiny{.n_layers = Layers(3),
                                  .compress_ratios = {0, 4, 128},
                                  .head_dim = Elements(32),
                                  .index_head_dim = Elements(16)};
  const Plan plan = plan_of(tiny, 128);
  EXPECT_EQ(plan.logical_bytes, Bytes(66624));
  const auto buffers = logical_buffers(plan).value();
  EXPECT_EQ(owned_bytes(buffers), Bytes(66624));
  EXPECT_EQ(find(buffers, 1, kWindowKv)->view_offset, Bytes(0));
  EXPECT_EQ(find(buffers, 1, kCompressedKv)->view_offset, Bytes(8192));
  EXPECT_EQ(find(buffers, 2, kAttentionKv)->bytes, Bytes(129 * 32 * 2));
  Bytes states{0};
  for (const LogicalBuffer& buffer : buffers) {
    if (buffer.n_dims == 3) states += buffer.bytes;
  }
  EXPECT_EQ(plan.logical_bytes - states, Bytes(27712));
}

TEST(LogicalBuffers, LeaveOutRowsThatAShortContextNeverCompletes) {
  for (const std::int64_t context : {1, 3, 4, 127, 128}) {
    const Plan plan = plan_of(pro(), context);
    const auto buffers = logical_buffers(plan).value();
    EXPECT_EQ(find(buffers, 2, kCompressedKv) != nullptr, context >= 4) << context;
    EXPECT_EQ(find(buffers, 2, kIndexerKv) != nullptr, context >= 4) << context;
    EXPECT_EQ(find(buffers, 3, kCompressedKv) != nullptr, context >= 128) << context;
    EXPECT_NE(find(buffers, 3, kMainKvState), nullptr);
    EXPECT_EQ(owned_bytes(buffers), plan.logical_bytes);
  }
}

TEST(LogicalBuffers, OfSeveralHeadsKeepTheirHeads) {
  const Layout layout = gqa_layout({.kv_heads = {Heads(8), Heads(1)}, .head_dim = Elements(64)});
  const auto buffers = logical_buffers(make_plan(layout, {.context = Tokens(10)}).value()).value();
  EXPECT_EQ(shape_of(buffers, 0, kKeys), "[8, 10, 64]");
  EXPECT_EQ(shape_of(buffers, 1, kValues), "[10, 64]");
}

// A planner once charged sliding layers for the full context.
TEST(PublishedPlans, SlidingLayersOfDeepSeekV4CostTheirWindow) {
  const std::int64_t contexts[] = {127, 128, 129, 1024};
  const std::int64_t plain[] = {130048, 131072, 131072, 131072};
  const std::int64_t sparse[] = {161792, 163840, 163840, 393216};
  const std::int64_t indexer[] = {7936, 8192, 8192, 65536};
  const std::int64_t heavy[] = {130048, 132096, 132096, 139264};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto buffers = logical_buffers(plan_of(flash(), contexts[i])).value();
    EXPECT_EQ(find(buffers, 0, kAttentionKv)->bytes, Bytes(plain[i]));
    EXPECT_EQ(find(buffers, 2, kAttentionKv)->bytes, Bytes(sparse[i]));
    EXPECT_EQ(find(buffers, 2, kIndexerKv)->bytes, Bytes(indexer[i]));
    EXPECT_EQ(find(buffers, 3, kAttentionKv)->bytes, Bytes(heavy[i]));
  }
}

TEST(PublishedPlans, DenseModelsCostWhatTheirCardsSay) {
  // Qwen3-8B: 36 layers, 8 KV heads of 128: 147,456 bytes a position in f16.
  const Layout qwen8 =
      gqa_layout({.kv_heads = std::vector<Heads>(36, Heads(8)), .head_dim = Elements(128)});
  EXPECT_EQ(make_plan(qwen8, {.context = Tokens(1)})->logical_bytes, Bytes(147456));
  // Qwen3-1.7B, 28 layers, at 131,072 positions.
  const Layout qwen1 =
      gqa_layout({.kv_heads = std::vector<Heads>(28, Heads(8)), .head_dim = Elements(128)});
  EXPECT_EQ(make_plan(qwen1, {.context = Tokens(131072)})->logical_bytes, Bytes(15032385536));
  // 80 layers at 32,768 positions: 2,684,354,560 numbers a side, which 32 bits cannot count.
  const Layout wide =
      gqa_layout({.kv_heads = std::vector<Heads>(80, Heads(8)), .head_dim = Elements(128)});
  EXPECT_EQ(make_plan(wide, {.context = Tokens(32768)})->logical_bytes,
            Bytes(2 * 2684354560LL * 2));
}

TEST(PublishedPlans, AStateOfMamba2CostsTheSameAtAnyPosition) {
  const Layout layout = mamba2_layout(
      {.n_layers = Layers(24), .n_ssm_heads = 24, .ssm_head_dim = 64, .state_size = Elements(128)});
  for (const std::int64_t context : {1, 1000000}) {
    const Plan plan = make_plan(layout, {.context = Tokens(context)}).value();
    EXPECT_EQ(plan.logical_bytes, Bytes(24 * (3 * 1792 + 1536 * 128) * 4));
    EXPECT_EQ(plan.page_bytes, Bytes(0));
    EXPECT_EQ(plan.recurrent_bytes, Bytes(2 * plan.logical_bytes.value()));
  }
}

// A model that slides keeps its last 4,096 positions, whatever the context: 33 pages when a step
// adds one position, as many more as a longer step or a rollback can need.
TEST(PublishedPlans, SlidingWindowPagesAreBoundedByWindowStepAndRollback) {
  const Layout layout =
      gqa_layout({.kv_heads = {Heads(8)}, .windows = {Tokens(4096)}, .head_dim = Elements(128)});
  const auto pages = [&](std::int64_t context, std::int64_t step, std::int64_t rollback) {
    const Plan plan = make_plan(layout, {.context = Tokens(context),
                                         .max_step = Tokens(step),
                                         .max_rollback = Tokens(rollback)})
                          .value();
    EXPECT_EQ(plan.page_bytes, Bytes(plan.group_pages[0].value() * 128 * 8 * 128 * 2 * 2));
    EXPECT_EQ(plan.logical_bytes, Bytes(std::min<std::int64_t>(context, 4096) * 8 * 128 * 2 * 2));
    return plan.group_pages[0].value();
  };
  EXPECT_EQ(pages(100, 1, 0), 1);
  EXPECT_EQ(pages(4096, 1, 0), 32);
  EXPECT_EQ(pages(131072, 1, 0), 33);
  EXPECT_EQ(pages(131072, 2, 0), 33);
  EXPECT_EQ(pages(131072, 3, 0), 34);  // 4,098 positions, the first of them the last of a page
  EXPECT_EQ(pages(131072, 128, 0), 34);
  EXPECT_EQ(pages(131072, 1, 130), 35);
  EXPECT_EQ(pages(131072, std::numeric_limits<std::int64_t>::max(), 1), 1024);
}

TEST(PublishedPlans, FullAndSlidingLayersAddUp) {
  const auto bytes = [](std::vector<Tokens> windows) {
    const Layout layout = gqa_layout({.kv_heads = std::vector<Heads>(windows.size(), Heads(2)),
                                      .windows = windows,
                                      .head_dim = Elements(64)});
    return make_plan(layout, {.context = Tokens(8192)}).value();
  };
  const Plan full = bytes({Tokens(0)});
  const Plan sliding = bytes({Tokens(1024)});
  const Plan both = bytes({Tokens(0), Tokens(1024)});
  EXPECT_EQ(both.geometry.groups.size(), 2u);
  EXPECT_EQ(both.logical_bytes, full.logical_bytes + sliding.logical_bytes);
  EXPECT_EQ(both.pool_bytes, full.pool_bytes + sliding.pool_bytes);
}

}  // namespace
}  // namespace kvant::state
