#include "kvant/model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvant::model {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

json small_config() {
  return {{"model_type", "lfm2"},
          {"vocab_size", 300},
          {"hidden_size", 64},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"intermediate_size", 96},
          {"block_auto_adjust_ff_dim", false},
          {"layer_types", {"conv", "full_attention", "conv"}},
          {"conv_L_cache", 4},
          {"conv_bias", true},
          {"norm_eps", 1e-6},
          {"rope_theta", 5e5},
          {"tie_word_embeddings", false},
          {"max_position_embeddings", 1024},
          {"bos_token_id", 1},
          {"eos_token_id", 7},
          {"pad_token_id", 0}};
}

NamedResult<ModelConfig> parse(const json& config) {
  const std::string text = config.dump();
  return parse_config({.name = "config.json", .text = text});
}

ModelConfig with(const std::function<void(json&)>& edit) {
  json config = small_config();
  edit(config);
  const auto parsed = parse(config);
  EXPECT_TRUE(parsed) << describe(parsed.error());
  return parsed.value();
}

TEST(Config, ReadsEveryField) {
  const ModelConfig config = parse(small_config()).value();
  EXPECT_EQ(config.architecture, Architecture::kLfm2);
  EXPECT_EQ(config.vocab_size, 300);
  EXPECT_EQ(config.hidden_size, 64);
  EXPECT_EQ(config.n_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.ffn_dim, 96);
  EXPECT_EQ(config.conv_width, 4);
  EXPECT_TRUE(config.conv_bias);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_FLOAT_EQ(config.norm_eps, 1e-6F);
  EXPECT_EQ(config.rope_theta, 5e5);
  EXPECT_EQ(config.context_length, 1024);
  EXPECT_EQ(config.bos_id, 1);
  EXPECT_EQ(config.pad_id, 0);
  EXPECT_THAT(config.eos_ids, ElementsAre(7));
  EXPECT_THAT(config.layers, ElementsAre(LayerConfig{LayerKind::kShortConv, 0},
                                         LayerConfig{LayerKind::kAttention, 2},
                                         LayerConfig{LayerKind::kShortConv, 0}));
  EXPECT_EQ(config.n_layers_of(LayerKind::kShortConv), 2);
}

TEST(Config, AbsentAndNullKeysMeanTheFamilysDefaults) {
  const ModelConfig config = with([](json& c) {
    for (const char* key : {"conv_L_cache", "conv_bias", "norm_eps", "rope_theta", "bos_token_id",
                            "tie_word_embeddings", "max_position_embeddings"}) {
      c.erase(key);
    }
    c["eos_token_id"] = nullptr;
    c["rope_scaling"] = nullptr;
  });
  EXPECT_EQ(config.conv_width, 3);
  EXPECT_FALSE(config.conv_bias);
  EXPECT_FLOAT_EQ(config.norm_eps, 1e-5F);
  EXPECT_EQ(config.rope_theta, 1e6);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.context_length, 128000);
  EXPECT_EQ(config.bos_id, std::nullopt);
  EXPECT_TRUE(config.eos_ids.empty());
}

TEST(Config, LayerKindsComeFromTheTypesElseTheIndicesElseAllAttend) {
  const auto no_types = [](json& c) { c.erase("layer_types"); };
  const ModelConfig indices = with([&](json& c) {
    no_types(c);
    c["full_attn_idxs"] = {0, 2};
  });
  EXPECT_EQ(indices.layers[0].kind, LayerKind::kAttention);
  EXPECT_EQ(indices.layers[1].kind, LayerKind::kShortConv);
  EXPECT_EQ(indices.layers[2].kind, LayerKind::kAttention);
  EXPECT_EQ(with(no_types).n_layers_of(LayerKind::kAttention), 3);
  EXPECT_EQ(with([](json& c) { c["full_attn_idxs"] = {0}; }).layers[0].kind, LayerKind::kShortConv)
      << "layer_types wins";
}

TEST(Config, KvHeadsMayBeGivenForEachLayer) {
  const ModelConfig config = with([](json& c) { c["num_key_value_heads"] = {0, 4, 0}; });
  EXPECT_EQ(config.layers[1].n_kv_heads, 4);
  EXPECT_EQ(config.layers[0].n_kv_heads, 0);
}

TEST(Config, HeadDimMayBeExplicit) {
  EXPECT_EQ(with([](json& c) { c["head_dim"] = 32; }).head_dim, 32);
  EXPECT_EQ(with([](json& c) {
              c["head_dim"] = 32;
              c["hidden_size"] = 63;
            }).head_dim,
            32);
}

// The published models: width in config.json and width of the weights.
TEST(Config, FfnWidthFollowsTheRuleOfTheFamily) {
  const auto ffn_dim = [](std::int64_t given, bool adjust, const json& multiplier) {
    return with([&](json& c) {
             c["intermediate_size"] = given;
             c["block_auto_adjust_ff_dim"] = adjust;
             c["block_ffn_dim_multiplier"] = multiplier;
             c["block_multiple_of"] = 256;
           })
        .ffn_dim;
  };
  EXPECT_EQ(ffn_dim(6656, true, 1.0), 4608);
  EXPECT_EQ(ffn_dim(10240, true, 1.0), 6912);
  EXPECT_EQ(ffn_dim(12288, true, 1.0), 8192);
  EXPECT_EQ(ffn_dim(10752, false, 1.0), 10752);
  EXPECT_EQ(ffn_dim(1000, true, 1), 768) << "666 rounded up";
  EXPECT_EQ(ffn_dim(1000, true, 1.5), 1024) << "999 rounded up";
  EXPECT_EQ(ffn_dim(1000, true, nullptr), 666) << "a null multiplier switches rounding off";
}

TEST(Config, FfnAdjustmentIsOnWhenTheKeyIsAbsentAndBlockFfDimWins) {
  const ModelConfig config = with([](json& c) {
    c.erase("block_auto_adjust_ff_dim");
    c["block_ff_dim"] = 6656;
  });
  EXPECT_EQ(config.ffn_dim, 4608);
}

TEST(Config, RopeThetaOfTheTopLevelWins) {
  EXPECT_EQ(with([](json& c) { c["rope_parameters"] = {{"rope_theta", 1e7}}; }).rope_theta, 5e5);
  EXPECT_EQ(with([](json& c) {
              c.erase("rope_theta");
              c["rope_parameters"] = {{"rope_theta", 1e7}, {"rope_type", "default"}};
            }).rope_theta,
            1e7);
}

TEST(Config, TieEmbeddingIsTheOlderSpelling) {
  EXPECT_TRUE(with([](json& c) { c["tie_embedding"] = true; }).tie_word_embeddings);
}

TEST(Config, EosMayBeAListAndGenerationConfigAddsToIt) {
  ModelConfig config = with([](json& c) { c["eos_token_id"] = {7, 2, 7}; });
  EXPECT_THAT(config.eos_ids, ElementsAre(7, 2));
  const std::string more = R"({"eos_token_id":[2,9]})";
  ASSERT_TRUE(merge_generation_config({.name = "generation_config.json", .text = more}, config));
  EXPECT_THAT(config.eos_ids, ElementsAre(7, 2, 9));
  const std::string bad = R"({"eos_token_id":[11,300]})";
  const auto status = merge_generation_config({.name = "g.json", .text = bad}, config);
  ASSERT_FALSE(status);
  EXPECT_THAT(describe(status.error()), HasSubstr("g.json: eos_token_id is 300"));
  EXPECT_THAT(config.eos_ids, ElementsAre(7, 2, 9)) << "unchanged by the failure";
}

TEST(Config, BundledModelsLoad) {
  const std::string root = KVANT_SOURCE_DIR;
  const ModelConfig tiny = read_config(root + "/tests/golden/lfm2").value();
  EXPECT_EQ(tiny.n_layers_of(LayerKind::kAttention), 2);
  const ModelConfig world = read_config(root + "/models/tinyworld-lfm2").value();
  EXPECT_EQ(world.n_layers(), 10);
  EXPECT_EQ(world.rope_theta, 1e6);
  EXPECT_THAT(world.eos_ids, ElementsAre(7));
}

struct Wrong {
  const char* key;
  json value;
  ErrorCode code;
  const char* named;
};

void expect_refused(const Wrong& wrong) {
  SCOPED_TRACE(std::string(wrong.key) + " = " + wrong.value.dump());
  json config = small_config();
  config[wrong.key] = wrong.value;
  const auto parsed = parse(config);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(name_of(parsed.error().code()), name_of(wrong.code));
  EXPECT_THAT(describe(parsed.error()), HasSubstr(wrong.named));
  EXPECT_THAT(describe(parsed.error()), HasSubstr("config.json"));
}

constexpr auto kBad = ErrorCode::kBadValue;
constexpr auto kUnsupported = ErrorCode::kUnsupportedModel;

TEST(ConfigHostile, AbsurdNumbersAreRefusedByKeyAndValue) {
  const std::vector<Wrong> cases = {
      {"num_attention_heads", 0, kBad, "num_attention_heads is 0, allowed is 1 to"},
      {"num_attention_heads", -4, kBad, "is -4"},
      {"num_attention_heads", 5, kBad, "hidden_size is 64"},
      {"num_attention_heads", "4", kBad, "is '4', allowed is an integer"},
      {"num_key_value_heads", 8, kBad, "layer 1: "},
      {"num_key_value_heads", 3, kBad, "num_key_value_heads is 3"},
      {"num_key_value_heads", {0, 0, 0}, kBad, "layer 1: "},
      {"num_key_value_heads", {2, 2}, kBad, "an array of 2"},
      {"num_key_value_heads", {2, 2, 2, 2}, kBad, "an array of 4"},
      {"num_key_value_heads", nullptr, ErrorCode::kMissingKey, "num_key_value_heads"},
      {"num_hidden_layers", 0, kBad, "num_hidden_layers is 0"},
      {"num_hidden_layers", 2147483648, kBad, "is 2147483648, allowed is 1 to 4096"},
      {"num_hidden_layers", "3", kBad, "is '3'"},
      {"num_hidden_layers", 4, kBad, "one entry for each of the 4 layers"},
      {"hidden_size", 0, kBad, "hidden_size is 0"},
      {"hidden_size", 1LL << 40, kBad, "is 1099511627776"},
      {"hidden_size", 64.5, kBad, "64.5"},
      {"hidden_size", 12, kBad, "head_dim is 3"},
      {"head_dim", 0, kBad, "head_dim is 0"},
      {"vocab_size", 0, kBad, "vocab_size is 0"},
      {"vocab_size", 18446744073709551615ULL, kBad, "is 18446744073709551615"},
      {"intermediate_size", 0, kBad, "intermediate_size is 0"},
      {"max_position_embeddings", 18446744073709551615ULL, kBad, "is 18446744073709551615"},
      {"max_position_embeddings", 0, kBad, "is 0"},
      {"conv_L_cache", 1, kBad, "layer 0: "},
      {"conv_L_cache", 1, kBad, "conv_L_cache is 1, allowed is 2 to 1024"},
      {"conv_L_cache", 0, kBad, "conv_L_cache is 0"},
      {"conv_L_cache", -3, kBad, "conv_L_cache is -3"},
      {"conv_L_cache", 1 << 30, kBad, "conv_L_cache is 1073741824, allowed is 2 to 1024"},
      {"norm_eps", 0.0, kBad, "norm_eps is 0"},
      {"norm_eps", 1.5, kBad, "norm_eps is 1.5"},
      {"norm_eps", 1e-60, kBad, "norm_eps"},
      {"rope_theta", -1.0, kBad, "rope_theta is -1"},
      {"rope_theta", 1e300, kBad, "rope_theta is 1e+300"},
      {"eos_token_id", 4294967295, kBad, "eos_token_id is 4294967295"},
      {"eos_token_id", -1, kBad, "eos_token_id is -1"},
      {"eos_token_id", {1, 300}, kBad, "is 300"},
      {"eos_token_id", "7", kBad, "is '7'"},
      {"bos_token_id", 300, kBad, "bos_token_id is 300, allowed is 0 to 299"},
      {"conv_bias", 1, kBad, "conv_bias is 1, allowed is true or false"},
      {"tie_word_embeddings", "yes", kBad, "is 'yes'"},
  };
  for (const Wrong& wrong : cases) expect_refused(wrong);
}

TEST(ConfigHostile, OtherModelsAreRefusedByName) {
  const std::vector<Wrong> cases = {
      {"model_type", "bert", kUnsupported, "model_type is 'bert', supported is 'lfm2'"},
      {"model_type", nullptr, ErrorCode::kMissingKey, "model_type"},
      {"model_type", 2, kBad, "model_type is 2"},
      {"layer_types", {"conv", "mamba", "conv"}, kUnsupported, "layer 1: "},
      {"layer_types", {"conv", "mamba", "conv"}, kUnsupported, "'mamba'"},
      {"layer_types", {"conv", 3, "conv"}, kBad, "layer_types"},
      {"layer_types", {"conv"}, kBad, "an array of 1"},
      {"layer_types", "conv", kBad, "is 'conv'"},
      {"rope_scaling", {{"type", "yarn"}}, kUnsupported, "type is 'yarn'"},
      {"rope_parameters", {{"rope_type", "llama3"}}, kUnsupported, "rope_type is 'llama3'"},
      {"rope_scaling", 4, kBad, "rope_scaling is 4"},
      {"quantization_config", {{"quant_method", "awq"}}, kUnsupported, "quantization_config"},
  };
  for (const Wrong& wrong : cases) expect_refused(wrong);
}

TEST(ConfigHostile, AttentionIndicesMustBeLayersEachOnce) {
  for (const json& indices : {json{0, 3}, json{-1}, json{1, 1}}) {
    json config = small_config();
    config.erase("layer_types");
    config["full_attn_idxs"] = indices;
    const auto parsed = parse(config);
    ASSERT_FALSE(parsed) << indices;
    EXPECT_THAT(describe(parsed.error()), HasSubstr("full_attn_idxs"));
  }
}

TEST(ConfigHostile, FilesThatAreNotAnObjectOfUniqueKeysAreRefused) {
  const auto code_of = [](std::string_view text) {
    const auto parsed = parse_config({.name = "config.json", .text = text});
    return parsed ? std::string_view("accepted") : name_of(parsed.error().code());
  };
  EXPECT_EQ(code_of(""), "bad_json");
  EXPECT_EQ(code_of("{"), "bad_json");
  EXPECT_EQ(code_of("[]"), "bad_value");
  EXPECT_EQ(code_of("<html>"), "bad_json");
  EXPECT_EQ(code_of(R"({"model_type":"lfm2","model_type":"llama"})"), "duplicate_name");
  EXPECT_EQ(code_of(R"({"model_type":"lfm2"})"), "missing_key");
  EXPECT_EQ(code_of(std::string(100000, '[')), "bad_json");
}

TEST(ConfigHostile, DirectoryWithoutConfigIsNamed) {
  const auto config = read_config("/nowhere");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code(), ErrorCode::kMissingFile);
  EXPECT_THAT(config.error().detail(), HasSubstr("/nowhere/config.json"));
}

}  // namespace
}  // namespace kvant::model
