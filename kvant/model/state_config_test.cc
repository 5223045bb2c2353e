#include "kvant/model/state_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvant::model {
namespace {

using nlohmann::json;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Edit = std::function<void(json&)>;

NamedResult<StateConfig> parse(const json& config) {
  const std::string text = config.dump();
  return parse_state_config({.name = "config.json", .text = text});
}

StateConfig parsed(json config, const Edit& edit = {}) {
  if (edit) edit(config);
  auto result = parse(config);
  EXPECT_TRUE(result) << describe(result.error());
  return std::move(result.value());
}

NamedError refusal(json config, const Edit& edit) {
  edit(config);
  const auto result = parse(config);
  EXPECT_FALSE(result);
  return result ? NamedError(Error{}) : result.error();
}

state::Plan plan_of(const StateConfig& config, std::int64_t context) {
  const RowKinds rows{.keys = config.usual_rows(), .values = config.usual_rows()};
  return plan_state(config, rows, {.context = Tokens(context)}).value();
}

// Bytes that one position more costs, the fixed parts aside.
std::int64_t bytes_a_position(const StateConfig& config) {
  return (plan_of(config, 1024).logical_bytes - plan_of(config, 512).logical_bytes).value() / 512;
}

json dense(const char* model_type) {
  return {{"model_type", model_type}, {"num_hidden_layers", 4},
          {"hidden_size", 64},        {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"max_position_embeddings", 8192}};
}

const state::GqaStateShape& gqa(const StateConfig& config) {
  return std::get<state::GqaStateShape>(config.shape);
}

std::vector<Tokens> windows_of(const char* model_type, const Edit& edit = {}) {
  return gqa(parsed(dense(model_type), edit)).windows;
}

TEST(StateConfig, DenseFamiliesKeepKeysAndValuesOfEachKvHead) {
  for (const char* type : {"llama", "qwen2", "granite"}) {
    const StateConfig config = parsed(dense(type));
    EXPECT_EQ(config.model_type, type);
    EXPECT_EQ(config.context_length, 8192);
    EXPECT_EQ(gqa(config).head_dim, Elements(16)) << "hidden_size / num_attention_heads";
    EXPECT_THAT(gqa(config).kv_heads, ElementsAre(Heads(2), Heads(2), Heads(2), Heads(2)));
    EXPECT_THAT(gqa(config).windows, Each(Tokens(0)));
    EXPECT_EQ(bytes_a_position(config), 4 * 2 * 2 * 16 * 2);
  }
}

TEST(StateConfig, PublishedDenseModelsCostWhatTheirShapesSay) {
  const StateConfig llama3_8b = parsed({{"model_type", "llama"},
                                        {"num_hidden_layers", 32},
                                        {"hidden_size", 4096},
                                        {"num_attention_heads", 32},
                                        {"num_key_value_heads", 8},
                                        {"max_position_embeddings", 8192}});
  EXPECT_EQ(bytes_a_position(llama3_8b), 131072);
  const StateConfig qwen3_06b = parsed({{"model_type", "qwen3"},
                                        {"num_hidden_layers", 28},
                                        {"hidden_size", 1024},
                                        {"num_attention_heads", 16},
                                        {"num_key_value_heads", 8},
                                        {"head_dim", 128},
                                        {"max_position_embeddings", 40960}});
  EXPECT_EQ(bytes_a_position(qwen3_06b), 114688);
}

TEST(StateConfig, WithoutKvHeadsEveryHeadIsOne) {
  const StateConfig config =
      parsed(dense("llama"), [](json& c) { c.erase("num_key_value_heads"); });
  EXPECT_THAT(gqa(config).kv_heads, Each(Heads(4)));
}

TEST(StateConfig, Qwen3HeadsAreNeverGuessed) {
  EXPECT_EQ(parse(dense("qwen3")).error().code(), ErrorCode::kMissingKey);
  EXPECT_EQ(gqa(parsed(dense("qwen3"), [](json& c) { c["head_dim"] = 128; })).head_dim,
            Elements(128));
}

TEST(StateConfig, MistralsWindowHoldsForAllLayersUnlessItIsNull) {
  EXPECT_THAT(windows_of("mistral", [](json& c) { c["sliding_window"] = 512; }), Each(Tokens(512)));
  EXPECT_THAT(windows_of("mistral", [](json& c) { c["sliding_window"] = nullptr; }),
              Each(Tokens(0)));
  EXPECT_THAT(windows_of("mistral"), Each(Tokens(4096)));
}

TEST(StateConfig, QwensWindowMustBeSwitchedOnAndSparesTheFirstLayers) {
  const auto set = [](json& c) { c["sliding_window"] = 512; };
  EXPECT_THAT(windows_of("qwen2", set), Each(Tokens(0)));
  EXPECT_THAT(windows_of("qwen2",
                         [&](json& c) {
                           set(c);
                           c["use_sliding_window"] = true;
                           c["max_window_layers"] = 3;
                         }),
              ElementsAre(Tokens(0), Tokens(0), Tokens(0), Tokens(512)));
}

TEST(StateConfig, LayerTypesSayWhichLayersHaveAWindow) {
  const auto types = [](json& c) {
    c["layer_types"] = {"full_attention", "sliding_attention", "full_attention", "full_attention"};
    c["use_sliding_window"] = true;
    c["sliding_window"] = 300;
  };
  EXPECT_THAT(windows_of("qwen2", types),
              ElementsAre(Tokens(0), Tokens(300), Tokens(0), Tokens(0)));
  const NamedError off = refusal(dense("qwen2"), [&](json& c) {
    types(c);
    c["use_sliding_window"] = false;
  });
  EXPECT_EQ(off.code(), ErrorCode::kBadValue);
  EXPECT_EQ(off.error().layer, 1);
}

TEST(StateConfig, AWindowIsWindowedAppendAndCountsNoMoreThanItsRows) {
  const StateConfig config = parsed(dense("mistral"), [](json& c) { c["sliding_window"] = 512; });
  const state::Plan plan = plan_of(config, 8192);
  EXPECT_EQ(plan.logical_bytes, Bytes(512 * 4 * 2 * 2 * 16 * 2));
  EXPECT_LT(plan.group_pages.front(), plan.pages_per_sequence);
}

TEST(StateConfig, LlamaAndGraniteHaveNoWindow) {
  for (const char* type : {"llama", "granite"}) {
    EXPECT_THAT(windows_of(type, [](json& c) { c["sliding_window"] = 512; }), Each(Tokens(0)));
  }
}

json lfm2(const char* model_type) {
  return {{"model_type", model_type}, {"num_hidden_layers", 3},
          {"hidden_size", 64},        {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"layer_types", {"conv", "full_attention", "conv"}},
          {"conv_L_cache", 4}};
}

TEST(StateConfig, Lfm2LayersAttendOrKeepTheLastInputsOfAConvolution) {
  for (const char* type : {"lfm2", "lfm2_moe"}) {
    const StateConfig config = parsed(lfm2(type));
    EXPECT_EQ(config.context_length, 128000) << "the family's default";
    const auto& shape = std::get<state::Lfm2StateShape>(config.shape);
    EXPECT_THAT(shape.kv_heads, ElementsAre(Heads(0), Heads(2), Heads(0)));
    EXPECT_EQ(shape.conv_width, 4);
    EXPECT_EQ(plan_of(config, 100).logical_bytes, Bytes(2 * 3 * 64 * 4 + 100 * 2 * 2 * 16 * 2));
  }
}

// 24 layers, 6 of them attend with 8 heads of 64; hidden size 2048.
TEST(StateConfig, PublishedMixtureOfTheLfm2FamilyCostsWhatItsShapeSays) {
  json layer_types;
  for (int layer = 0; layer < 24; ++layer) layer_types.push_back("conv");
  for (const std::size_t layer : {2U, 6U, 10U, 14U, 18U, 21U})
    layer_types[layer] = "full_attention";
  const StateConfig config = parsed({{"model_type", "lfm2_moe"},
                                     {"num_hidden_layers", 24},
                                     {"hidden_size", 2048},
                                     {"num_attention_heads", 32},
                                     {"num_key_value_heads", 8},
                                     {"layer_types", layer_types}});
  EXPECT_EQ(bytes_a_position(config), 12288);
  EXPECT_EQ(plan_of(config, 1).logical_fixed_bytes(), Bytes(294912));
}

json deepseek() {
  return {{"model_type", "deepseek_v4"},
          {"num_hidden_layers", 3},
          {"head_dim", 32},
          {"index_head_dim", 16},
          {"sliding_window", 128},
          {"compress_ratios", {0, 4, 128}},
          {"num_key_value_heads", 1},
          {"max_position_embeddings", 1024}};
}

const state::DeepSeekV4StateShape& shape_of(const StateConfig& config) {
  return std::get<state::DeepSeekV4StateShape>(config.shape);
}

TEST(StateConfig, DeepSeekV4ReadsItsSchedule) {
  const StateConfig config = parsed(deepseek());
  EXPECT_THAT(shape_of(config).compress_ratios, ElementsAre(0, 4, 128));
  EXPECT_EQ(config.usual_rows(), codec::Kind::kBf16);
  EXPECT_EQ(config.n_ignored_ratios(), 0);
  EXPECT_EQ(plan_of(config, 128).logical_bytes, Bytes(66624)) << "as hf2q 0.1.4 counts it";
}

TEST(StateConfig, DeepSeekV4ReadsNamedLayersWithTheirRates) {
  const auto named = [](json& c) {
    c.erase("compress_ratios");
    c["layer_types"] = {"sliding_attention", "compressed_sparse_attention",
                        "heavily_compressed_attention"};
  };
  EXPECT_EQ(shape_of(parsed(deepseek(), named)).compress_ratios,
            shape_of(parsed(deepseek())).compress_ratios);
  EXPECT_THAT(shape_of(parsed(deepseek(),
                              [&](json& c) {
                                named(c);
                                c["compress_rates"] = {{"compressed_sparse_attention", 8}};
                              }))
                  .compress_ratios,
              ElementsAre(0, 8, 128));
  const NamedError unknown = refusal(deepseek(), [&](json& c) {
    named(c);
    c["layer_types"][2] = "linear_attention";
  });
  EXPECT_EQ(unknown.error().layer, 2);
  EXPECT_THAT(unknown.detail(), HasSubstr("linear_attention"));
}

TEST(StateConfig, RatiosBeyondTheLayersAreCountedAndIgnored) {
  const auto longer = [](json& c) { c["compress_ratios"] = {0, 4, 128, 0, 7}; };
  const StateConfig config = parsed(deepseek(), longer);
  EXPECT_EQ(config.n_ignored_ratios(), 2);
  EXPECT_EQ(plan_of(config, 128).logical_bytes, plan_of(parsed(deepseek()), 128).logical_bytes);
}

Error plan_error(const json& config, std::int64_t context, RowKinds rows) {
  return plan_state(parsed(config), rows, {.context = Tokens(context)}).error().error();
}

TEST(StateConfig, DeepSeekV4IsRefusedInTheOrderOfItsDeclaration) {
  constexpr RowKinds kRows{.keys = codec::Kind::kBf16, .values = codec::Kind::kBf16};
  json config = deepseek();
  config["sliding_window"] = 129;
  config["compress_ratios"] = {8};
  EXPECT_EQ(plan_error(config, 0, kRows), (Error{.code = ErrorCode::kEmptyContext}));
  EXPECT_EQ(plan_error(config, 1025, kRows),
            (Error{.code = ErrorCode::kContextBound, .actual = 1025, .expected = 1024}));
  EXPECT_EQ(plan_error(config, 128, kRows),
            (Error{.code = ErrorCode::kSlidingWindow, .actual = 129, .expected = 128}));
  config["sliding_window"] = 128;
  EXPECT_EQ(plan_error(config, 128, kRows),
            (Error{.code = ErrorCode::kLayerCount, .actual = 1, .expected = 3}));
  config["compress_ratios"] = {0, 8, 128};
  EXPECT_EQ(plan_error(config, 128, kRows),
            (Error{.code = ErrorCode::kCompressionRatio, .layer = 1, .actual = 8}));
}

TEST(StateConfig, OneRowThatIsKeyAndValueHasOneKind) {
  const auto plan =
      plan_state(parsed(deepseek()), {.keys = codec::Kind::kF32, .values = codec::Kind::kBf16},
                 {.context = Tokens(128)});
  EXPECT_EQ(plan.error().code(), ErrorCode::kBadValue);
  EXPECT_THAT(plan.error().detail(), HasSubstr("f32"));
}

TEST(StateConfig, FieldsThatShapeAStateMustBeThere) {
  const auto expect_missing = [](const json& whole, const char* key) {
    const NamedError error = refusal(whole, [&](json& c) { c.erase(key); });
    EXPECT_EQ(error.code(), ErrorCode::kMissingKey) << key;
    EXPECT_THAT(error.detail(), HasSubstr(key));
  };
  for (const char* key : {"num_hidden_layers", "hidden_size", "num_attention_heads",
                          "max_position_embeddings", "model_type"}) {
    expect_missing(dense("llama"), key);
  }
  for (const char* key : {"num_hidden_layers", "head_dim", "index_head_dim", "sliding_window",
                          "compress_ratios", "max_position_embeddings"}) {
    expect_missing(deepseek(), key);
  }
}

TEST(StateConfig, UnusableFieldsAreNamed) {
  const struct {
    json whole;
    const char* key;
    json value;
    ErrorCode code;
  } cases[] = {{dense("llama"), "num_key_value_heads", 3, ErrorCode::kBadValue},
               {dense("llama"), "num_key_value_heads", 0, ErrorCode::kBadValue},
               {dense("llama"), "num_key_value_heads", {2, 2}, ErrorCode::kBadValue},
               {dense("llama"), "num_hidden_layers", 0, ErrorCode::kBadValue},
               {dense("llama"), "num_hidden_layers", 1 << 20, ErrorCode::kBadValue},
               {dense("llama"), "layer_types", {"full_attention"}, ErrorCode::kBadValue},
               {dense("llama"), "layer_types", {1, 2, 3, 4}, ErrorCode::kBadValue},
               {dense("mistral"), "sliding_window", 0, ErrorCode::kBadValue},
               {dense("mistral"), "sliding_window", "wide", ErrorCode::kBadValue},
               {deepseek(), "compress_ratios", "0,4", ErrorCode::kBadValue},
               {deepseek(), "compress_ratios", {0, 4.5, 128}, ErrorCode::kBadValue},
               {deepseek(), "compress_ratios", {0, -4, 128}, ErrorCode::kBadValue},
               {deepseek(), "num_key_value_heads", 2, ErrorCode::kBadValue},
               {deepseek(), "head_dim", 0, ErrorCode::kBadValue}};
  for (const auto& each : cases) {
    const NamedError error = refusal(each.whole, [&](json& c) { c[each.key] = each.value; });
    EXPECT_EQ(error.code(), each.code) << describe(error);
    EXPECT_THAT(error.detail(), HasSubstr(each.key));
  }
}

TEST(StateConfig, AnUnknownArchitectureIsNamedBesideTheKnownOnes) {
  for (const char* type : {"gpt2", "deepseek_v41"}) {
    const NamedError error = refusal(deepseek(), [&](json& c) { c["model_type"] = type; });
    EXPECT_EQ(error.code(), ErrorCode::kUnsupportedModel);
    EXPECT_THAT(error.detail(), HasSubstr(type));
    EXPECT_THAT(error.detail(), HasSubstr("deepseek_v4"));
  }
}

TEST(StateConfig, BrokenJsonIsRefused) {
  EXPECT_EQ(parse_state_config({.name = "config.json", .text = "{"}).error().code(),
            ErrorCode::kBadJson);
}

}  // namespace
}  // namespace kvant::model
