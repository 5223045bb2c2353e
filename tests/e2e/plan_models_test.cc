// kvant plan from a config.json alone, of models that this version cannot run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/e2e/program.h"

namespace kvant::e2e {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

Outcome plan(const std::string& model, const Arguments& flags = {}) {
  Arguments arguments = {"plan", model};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return run(arguments);
}

json planned(const std::string& model, Arguments flags = {}) {
  flags.emplace_back("--json");
  const Outcome outcome = plan(model, flags);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return json::parse(outcome.out, nullptr, false);
}

std::string flash() { return source("tests/data/deepseek-v4-flash.json"); }
std::string pro() { return source("tests/data/deepseek-v4-pro.json"); }

// A config of three layers: a window, ratio 4 and ratio 128.
json small_deepseek() {
  return {{"model_type", "deepseek_v4"},
          {"num_hidden_layers", 3},
          {"head_dim", 32},
          {"index_head_dim", 16},
          {"sliding_window", 128},
          {"compress_ratios", {0, 4, 128}},
          {"num_key_value_heads", 1},
          {"max_position_embeddings", 1024}};
}

json dense(const char* model_type) {
  return {{"model_type", model_type}, {"num_hidden_layers", 2},         {"hidden_size", 64},
          {"num_attention_heads", 4}, {"num_key_value_heads", 2},       {"head_dim", 32},
          {"sliding_window", 512},    {"max_position_embeddings", 8192}};
}

std::int64_t sum_of(const json& items, const char* member) {
  std::int64_t sum = 0;
  for (const json& item : items) sum += item.at(member).get<std::int64_t>();
  return sum;
}

// Null when the layer has no such buffer.
json buffer(const json& plan, std::int64_t layer, const char* kind) {
  for (const json& each : plan.at("logical_buffers")) {
    if (each.at("layer") == layer && each.at("kind") == kind) return each;
  }
  return {};
}

TEST(PlanOfModels, DeepSeekV4CountsAMillionPositionsAsPublished) {
  EXPECT_EQ(planned(flash(), {"--ctx", "1048576"}).at("logical_bytes"), 7232045056);
  EXPECT_EQ(planned(pro(), {"--ctx", "1048576"}).at("logical_bytes"), 10353082368);
  EXPECT_EQ(planned(flash(), {"--ctx", "1"}).at("logical_bytes"), 12250112);
  EXPECT_EQ(planned(flash(), {"--ctx", "131072"}).at("logical_bytes"), 919617536);
}

TEST(PlanOfModels, TheTableOfDeepSeekV4SaysTheSame) {
  const Outcome outcome = plan(flash(), {"--ctx", "1048576"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("7232045056"));
  EXPECT_THAT(outcome.out, HasSubstr("planned only: this version cannot run deepseek_v4"));
  EXPECT_THAT(outcome.out, HasSubstr("[1, 262144, 512]"));
  EXPECT_THAT(outcome.out, HasSubstr("2 4 .. 42"));
  EXPECT_THAT(outcome.out, HasSubstr("17842176"));
  EXPECT_THAT(outcome.out, HasSubstr("####"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("scratch")));
}

TEST(PlanOfModels, ASnapshotOfAnotherEngineCostsTheSameAtAnyContext) {
  for (const char* context : {"128", "129", "4096", "1048576"}) {
    EXPECT_EQ(planned(flash(), {"--ctx", context}).at("logical_snapshot_bytes"), 17842176);
    EXPECT_EQ(planned(pro(), {"--ctx", context}).at("logical_snapshot_bytes"), 26705920);
  }
}

TEST(PlanOfModels, BuffersAreListedAsHf2qCountsThem) {
  const json out = planned(flash(), {"--ctx", "1048576"});
  EXPECT_EQ(buffer(out, 2, "attention_kv").at("shape"), json({262272, 512}));
  EXPECT_EQ(buffer(out, 2, "indexer_kv").at("shape"), json({262144, 128}));
  EXPECT_EQ(buffer(out, 2, "indexer_kv").at("dtype"), "bf16");
  EXPECT_EQ(buffer(out, 3, "main_kv_state").at("shape"), json({1, 128, 512}));
  EXPECT_EQ(buffer(out, 3, "main_kv_state").at("bytes"), 262144);
  EXPECT_EQ(buffer(out, 3, "compressed_kv").at("view_offset"), 131072);
  EXPECT_TRUE(buffer(out, 0, "compressed_kv").is_null());
  std::int64_t sum = 0;
  for (const json& each : out.at("logical_buffers")) {
    if (!each.contains("view_offset")) sum += each.at("bytes").get<std::int64_t>();
  }
  EXPECT_EQ(sum, out.at("logical_bytes"));
}

// What the pool holds is told for each component; it adds up to the parts of the total.
TEST(PlanOfModels, PoolBytesOfComponentsAddUp) {
  const Folder folder;
  const std::string mistral = folder.write("mistral.json", dense("mistral").dump());
  const std::string small = folder.write("deepseek.json", small_deepseek().dump());
  for (const auto& [model, context] :
       {std::pair{flash(), "1000"}, {small, "1"}, {small, "1024"}, {mistral, "8000"}}) {
    const json out = planned(model, {"--ctx", context});
    const auto& components = out.at("components");
    EXPECT_EQ(sum_of(components, "logical_bytes"), out.at("logical_bytes"));
    EXPECT_EQ(sum_of(components, "pool_bytes"),
              out.at("pages_bytes").get<std::int64_t>() +
                  out.at("recurrent_bytes").get<std::int64_t>() / 2)
        << "of the two blocks one is the initial values";
    EXPECT_EQ(out.at("total_bytes"), out.at("pool_bytes").get<std::int64_t>() +
                                         out.at("tables_bytes").get<std::int64_t>());
  }
}

TEST(PlanOfModels, ExtraCompressRatiosAreNotedOnStandardError) {
  const Outcome outcome = plan(flash(), {"--json"});
  EXPECT_EQ(outcome.n_err_lines(), 1);
  EXPECT_THAT(outcome.err, HasSubstr("44 compress ratios for 43 layers"));
  EXPECT_EQ(integer_at(outcome.out, "/n_layers"), 43);
}

void expect_refused(const json& config, const Arguments& flags, const std::string& what) {
  const Folder folder;
  const Outcome outcome = plan(folder.write("config.json", config.dump()), flags);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.n_err_lines(), 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(what));
}

TEST(PlanOfModels, AnUnknownRatioIsNamedWithItsLayer) {
  json config = small_deepseek();
  config["compress_ratios"] = {0, 4, 8};
  expect_refused(config, {}, "layer 2: a compress ratio of 8");
  expect_refused(config, {"--budget", "1G"}, "layer 2: a compress ratio of 8");
}

TEST(PlanOfModels, RefusalsNameWhatWasReceivedAndWhatIsAllowed) {
  json config = small_deepseek();
  expect_refused(config, {"--ctx", "1025"},
                 "1025 positions were requested, the context holds 1024");
  expect_refused(config, {"--ctx", "0"}, "context of 0 positions");
  expect_refused(config, {"--kv-k", "f32", "--kv-v", "f16"}, "keys f32 and values f16");
  config["compress_ratios"] = {0, 4};
  expect_refused(config, {}, "2 compress ratios are given for 3 layers");
  config = small_deepseek();
  config["sliding_window"] = 129;
  expect_refused(config, {}, "window of 129 positions cannot run, 1 to 128 can");
  config.erase("compress_ratios");
  expect_refused(config, {}, "compress_ratios");
  config["model_type"] = "gpt2";
  expect_refused(config, {}, "'gpt2'");
}

TEST(PlanOfModels, RowsOfDeepSeekV4AreBf16UnlessAFlagSaysOtherwise) {
  EXPECT_EQ(planned(flash()).at("components")[0].at("dtype"), "bf16");
  EXPECT_EQ(planned(flash(), {"--kv", "f32"}).at("components")[0].at("dtype"), "f32");
  EXPECT_EQ(planned(flash(), {"--kv", "f16"}).at("components")[0].at("dtype"), "f16");
}

TEST(PlanOfModels, DenseModelsAreKeysAndValues) {
  for (const char* type : {"llama", "qwen2", "qwen3", "granite"}) {
    const Folder folder;
    const json out = planned(folder.write("config.json", dense(type).dump()), {"--ctx", "1000"});
    EXPECT_EQ(out.at("architecture"), type);
    EXPECT_EQ(out.at("planned_only"), true);
    EXPECT_EQ(out.at("logical_bytes"), 1000 * 2 * 2 * 2 * 32 * 2);
    EXPECT_FALSE(out.contains("scratch_bytes"));
    EXPECT_EQ(buffer(out, 1, "values").at("shape"), json({2, 1000, 32}));
  }
}

TEST(PlanOfModels, ASlidingWindowBoundsThePagesOfASequence) {
  const Folder folder;
  const std::string mistral = folder.write("config.json", dense("mistral").dump());
  const json out = planned(mistral, {"--ctx", "8192", "--chunk", "128"});
  EXPECT_EQ(out.at("logical_bytes"), 512 * 2 * 2 * 2 * 32 * 2);
  const json& group = out.at("page_groups")[0];
  EXPECT_EQ(group.at("window"), 512);
  EXPECT_LE(group.at("pages_per_sequence"), (512 + 128) / 128 + 1);
  EXPECT_EQ(out.at("pages_bytes"), group.at("pages_per_sequence").get<std::int64_t>() *
                                       group.at("bytes_per_page").get<std::int64_t>());
  EXPECT_THAT(plan(mistral).out, HasSubstr("windowed_append"));
}

TEST(PlanOfModels, AModelOfARunnableKindInAnUnreadablePackingIsPlannedOnly) {
  const Folder folder;
  json config = json::parse(read_whole(tinyworld() + "/config.json"));
  config["quantization_config"] = {{"quant_method", "fp8"}};
  const std::string packed = folder.write("config.json", config.dump());
  const Outcome text = plan(packed);
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("planned only"));
  EXPECT_THAT(text.out, HasSubstr("quantization_config"));
  EXPECT_EQ(planned(packed).at("logical_bytes"), planned(tinyworld()).at("logical_bytes"));
}

TEST(PlanOfModels, LayersThatCannotShiftAreNamedWithTheReason) {
  const json obstacles = planned(flash()).at("context_shift").at("obstacles");
  EXPECT_EQ(obstacles.at(0).at("kind"), "window_kv");
  EXPECT_EQ(obstacles.at(0).at("layers").size(), 43U);
  EXPECT_THAT(obstacles.dump(), HasSubstr("compressed_kv"));
  const std::string text = plan(flash()).out;
  EXPECT_THAT(text, HasSubstr("context shift: not possible"));
  EXPECT_THAT(text, HasSubstr("window_kv of layers 0-42: a ring"));
  EXPECT_THAT(text, HasSubstr("indexer_kv of layers 2 4 .. 42: a row stands for"));
  EXPECT_EQ(planned(tinyworld()).at("context_shift").at("possible"), true);
  EXPECT_THAT(plan(tinyworld()).out, HasSubstr("context shift: possible"));
}

// A position more in every ring and of every compressor's rows, in the sequence's block and in that
// of the initial values.
TEST(PlanOfModels, WhatARollbackTakesIsPlannedAndTold) {
  const Folder folder;
  const std::string model = folder.write("config.json", small_deepseek().dump());
  const json none = planned(model, {"--ctx", "1024"});
  const json eight = planned(model, {"--ctx", "1024", "--rollback", "8"});
  EXPECT_EQ(none.at("rollback_bytes"), 0);
  EXPECT_EQ(eight.at("rollback_positions"), 8);
  const std::int64_t windows = 3 * 32 * 2;
  const std::int64_t states = (2 * 64 + 2 * 32 + 2 * 32) * 4;
  EXPECT_EQ(eight.at("rollback_bytes"), 2 * 8 * (windows + states));
  EXPECT_EQ(eight.at("logical_bytes"), none.at("logical_bytes"));
  EXPECT_EQ(eight.at("pool_bytes").get<std::int64_t>() - none.at("pool_bytes").get<std::int64_t>(),
            2 * 8 * (windows + states));
  EXPECT_THAT(plan(model, {"--rollback", "8"}).out, HasSubstr("the last 8 positions can be taken"));
}

TEST(PlanOfModels, ABudgetGivesTheLongestContext) {
  const std::string budget = "1000000000";
  const json out = planned(flash(), {"--budget", budget});
  EXPECT_EQ(out.at("budget_bytes"), 1000000000);
  EXPECT_LE(out.at("total_bytes"), 1000000000);
  const std::int64_t context = out.at("context");
  EXPECT_GT(planned(flash(), {"--ctx", std::to_string(context + 1)}).at("total_bytes"), 1000000000);
  const json three = planned(flash(), {"--budget", budget, "--seqs", "3"});
  EXPECT_LE(three.at("total_bytes"), 1000000000);
  EXPECT_LT(three.at("context"), context);
}

TEST(PlanOfModels, ABudgetAndAContextGiveTheMostSequences) {
  for (const std::string& model : {flash(), tinyworld()}) {
    const Arguments flags = {"--budget", "1G", "--ctx", "4096", "-t", "2"};
    const json out = planned(model, flags);
    EXPECT_EQ(out.at("context"), 4096);
    EXPECT_LE(out.at("total_bytes"), 1 << 30);
    const std::int64_t n = out.at("n_sequences");
    EXPECT_GT(n, 1);
    EXPECT_GT(planned(model, {"--ctx", "4096", "--seqs", std::to_string(n + 1), "-t", "2"})
                  .at("total_bytes"),
              1 << 30);
    EXPECT_THAT(plan(model, flags).out, HasSubstr("the most sequences that fit"));
  }
}

TEST(PlanOfModels, ABudgetBelowTheLeastIsRefusedWithBothNumbers) {
  const Outcome context = plan(flash(), {"--budget", "1M"});
  EXPECT_EQ(context.exit_code, 1);
  EXPECT_THAT(context.err, HasSubstr("1048576"));
  const Outcome sequences = plan(flash(), {"--budget", "1G", "--ctx", "1048576"});
  EXPECT_EQ(sequences.exit_code, 1);
  EXPECT_THAT(sequences.err, HasSubstr("1073741824"));
}

TEST(PlanOfModels, AskingForAllThreeAtOnceIsAnErrorOfUse) {
  const Outcome outcome = plan(flash(), {"--budget", "1G", "--ctx", "512", "--seqs", "2"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--seqs"));
}

}  // namespace
}  // namespace kvant::e2e
