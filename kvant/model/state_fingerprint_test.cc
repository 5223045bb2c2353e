#include "kvant/model/state_fingerprint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "tests/support/folder_test.h"
#include "tests/support/tiny_model.h"

namespace kvant::model {
namespace {

using test::kTinyModelDir;

class StateFingerprint : public test::FolderTest {};

state::Layout f32_layout(const LoadedModel& model) {
  return state_layout(model.config, codec::Kind::kF32, codec::Kind::kF32).value();
}

std::string fingerprint_of(const LoadedModel& model) {
  return state_fingerprint(model, f32_layout(model)).value().hex();
}

// Computed from the files by a Python script that knows the documented fields: struct and hashlib,
// xxhsum for the tensors.
TEST_F(StateFingerprint, IsThatOfItsDocumentedFields) {
  const auto model = load_model(kTinyModelDir).value();
  EXPECT_EQ(fingerprint_of(*model),
            "ba38477dc3cc44302556ed032cd06c57adb385420e9f417d8b8da9b8651e1f01");
}

TEST_F(StateFingerprint, DoesNotDependOnHowWeightsAreRead) {
  const auto mapped = load_model(kTinyModelDir, FileAccess::kMap).value();
  const auto copied = load_model(kTinyModelDir, FileAccess::kRead).value();
  EXPECT_EQ(fingerprint_of(*mapped), fingerprint_of(*copied));
}

TEST_F(StateFingerprint, KnowsTheConfigurationTheWeightsAndTheLayout) {
  const auto model = load_model(kTinyModelDir).value();
  std::set<std::string> seen = {fingerprint_of(*model)};
  const auto expect_new = [&](const char* what, const std::string& fingerprint) {
    EXPECT_TRUE(seen.insert(fingerprint).second) << what;
  };
  expect_new("rows of another type",
             state_fingerprint(
                 *model, state_layout(model->config, codec::Kind::kF16, codec::Kind::kF32).value())
                 .value()
                 .hex());
  const auto changed = [&](const char* what, const auto& change) {
    LoadedModel other = *model;
    change(other.config);
    expect_new(what, state_fingerprint(other, f32_layout(*model)).value().hex());
  };
  changed("vocabulary", [](ModelConfig& config) { config.vocab_size += 1; });
  changed("hidden size", [](ModelConfig& config) { config.hidden_size += 1; });
  changed("heads", [](ModelConfig& config) { config.n_heads += 1; });
  changed("head_dim", [](ModelConfig& config) { config.head_dim += 1; });
  changed("ffn_dim", [](ModelConfig& config) { config.ffn_dim += 1; });
  changed("conv_width", [](ModelConfig& config) { config.conv_width += 1; });
  changed("conv_bias", [](ModelConfig& config) { config.conv_bias = !config.conv_bias; });
  changed("tied", [](ModelConfig& config) { config.tie_word_embeddings = false; });
  changed("norm_eps", [](ModelConfig& config) { config.norm_eps *= 2; });
  changed("theta", [](ModelConfig& config) { config.rope_theta *= 2; });
  changed("a layer's heads", [](ModelConfig& config) { config.layers[1].n_kv_heads += 1; });
  changed("a layer more", [](ModelConfig& config) { config.layers.push_back({}); });
  // What no byte of a state depends on.
  LoadedModel longer = *model;
  longer.config.context_length *= 2;
  longer.config.eos_ids.push_back(5);
  EXPECT_FALSE(seen.insert(fingerprint_of(longer)).second);
}

TEST_F(StateFingerprint, KnowsEveryByteOfTheWeights) {
  std::filesystem::copy(kTinyModelDir, folder_);
  const std::string path = path_of("model.safetensors");
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x3C');
  }
  const auto after = load_model(folder_).value();
  EXPECT_NE(fingerprint_of(*after), fingerprint_of(*load_model(kTinyModelDir).value()));
}

}  // namespace
}  // namespace kvant::model
