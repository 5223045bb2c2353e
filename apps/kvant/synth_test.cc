#include "apps/kvant/synth.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "apps/kvant/temporary_directory.h"
#include "kvant/model/loader.h"

namespace kvant::app {
namespace {

Lfm2Shape small_shape() {
  return {.n_layers = 3,
          .attention_layers = {1},
          .hidden_size = 32,
          .n_heads = 4,
          .n_kv_heads = 2,
          .ffn_dim = 48,
          .vocab_size = 40,
          .conv_width = 4,
          .context_length = 256};
}

TEST(Synth, ARandomModelLoadsAsTheShapeThatWasAskedFor) {
  auto folder = TemporaryDirectory::create(testing::TempDir());
  ASSERT_TRUE(folder);
  ASSERT_TRUE(write_random_model(small_shape(), folder->path()));
  const auto loaded = model::load_model(folder->path());
  ASSERT_TRUE(loaded) << describe(loaded.error());
  const model::ModelConfig& config = (*loaded)->config;
  EXPECT_EQ(config.n_layers(), 3);
  EXPECT_EQ(config.n_layers_of(model::LayerKind::kAttention), 1);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.conv_width, 4);
  // Embedding; 2 convolution layers; an attention layer; 3 feed-forward nets; norms.
  const std::int64_t numbers = 40 * 32 + 2 * (3 * 32 * 32 + 32 * 4 + 32 * 32) +
                               (2 * 32 * 32 + 2 * 16 * 32 + 2 * 8) + 3 * 3 * 48 * 32 +
                               (1 + 2 * 3) * 32;
  EXPECT_EQ((*loaded)->weights->data_bytes(), Bytes(2 * numbers));
}

TEST(Synth, WeightsAreSmallNumbersOfBothSigns) {
  auto folder = TemporaryDirectory::create(testing::TempDir());
  ASSERT_TRUE(folder);
  ASSERT_TRUE(write_random_model(small_shape(), folder->path()));
  const auto loaded = model::load_model(folder->path());
  ASSERT_TRUE(loaded);
  const auto* tensor = (*loaded)->weights->find("model.embed_tokens.weight");
  ASSERT_NE(tensor, nullptr);
  int n_negative = 0;
  for (std::size_t at = 0; at < tensor->data.size(); at += 2) {
    std::uint16_t half = 0;
    std::memcpy(&half, tensor->data.data() + at, sizeof half);
    const auto value = std::bit_cast<float>(std::uint32_t{half} << 16);
    EXPECT_GE(std::fabs(value), 0x1p-7F);
    EXPECT_LT(std::fabs(value), 0x1p-4F);
    n_negative += value < 0.0F ? 1 : 0;
  }
  EXPECT_NEAR(n_negative, 640, 128);  // of 1280; five standard deviations are 90
}

TEST(Synth, The350MShapeHasThePublishedNumberOfParameters) {
  const Lfm2Shape shape = lfm2_350m();
  const std::int64_t hidden = shape.hidden_size;
  const std::int64_t kv = hidden / shape.n_heads * shape.n_kv_heads;
  const auto n_attention = static_cast<std::int64_t>(shape.attention_layers.size());
  const std::int64_t conv = 4 * hidden * hidden + hidden * shape.conv_width;
  const std::int64_t attention = 2 * hidden * hidden + 2 * hidden * kv + 2 * hidden / shape.n_heads;
  const std::int64_t rest = 3 * hidden * shape.ffn_dim + 2 * hidden;
  EXPECT_EQ(shape.vocab_size * hidden + hidden + n_attention * attention +
                (shape.n_layers - n_attention) * conv + shape.n_layers * rest,
            354'483'968);
}

TEST(TemporaryDirectory, GoesAwayWithItsFiles) {
  std::string path;
  {
    auto folder = TemporaryDirectory::create(testing::TempDir());
    ASSERT_TRUE(folder);
    path = folder->path();
    ASSERT_TRUE(write_random_model(small_shape(), path));
    EXPECT_TRUE(std::filesystem::exists(path + "/config.json"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TemporaryDirectory, AParentThatIsNotThereIsNamed) {
  const auto folder = TemporaryDirectory::create("no/such/parent");
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code(), ErrorCode::kFileWriteFailed);
  EXPECT_EQ(folder.error().detail(), "no/such/parent");
}

}  // namespace
}  // namespace kvant::app
