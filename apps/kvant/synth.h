// A model of random weights in a published shape, for benchmarks: what it says is noise, but it is
// as large and as slow as the real one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/base/units.h"

namespace kvant::app {

// The numbers of an LFM2 config that shape its weights.
struct Lfm2Shape {
  std::int64_t n_layers = 0;
  std::vector<std::int64_t> attention_layers;
  std::int64_t hidden_size = 0;
  std::int64_t n_heads = 0;
  std::int64_t n_kv_heads = 0;
  std::int64_t ffn_dim = 0;
  std::int64_t vocab_size = 0;
  std::int64_t conv_width = 3;
  std::int64_t context_length = 0;
};

// LFM2-350M: 354 million parameters, 709 MB in bf16.
Lfm2Shape lfm2_350m();

// Writes config.json and model.safetensors (bf16, tied head) into the directory, which exists.
// Errors: kFileOpenFailed, kFileWriteFailed, each with the path; what was written stays.
NamedStatus write_random_model(const Lfm2Shape& shape, const std::string& directory);

}  // namespace kvant::app
