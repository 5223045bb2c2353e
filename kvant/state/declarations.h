// Layouts of the architectures: the only place where a model's memory is described.
//
// A declaration turns the numbers of a configuration into a Layout. Most never fail: numbers that
// make no sense give a layout that Layout::validate refuses by layer and kind. DeepSeek-V4 has
// conditions of its own, so its declaration can.
#pragma once

#include <cstdint>
#include <vector>

#include "kvant/state/layout.h"
#include "kvant/state/plan.h"

namespace kvant::state {

// The LFM2 family: a layer either attends over all positions (keys and values, one row a position
// and KV head) or is a short convolution that remembers its last conv_width - 1 inputs.
struct Lfm2StateShape {
  std::vector<Heads> kv_heads = {};  // [n_layers]; 0: a short convolution
  Elements head_dim{0};
  std::int64_t conv_width = 3;  // taps; at least 2 where a layer is a convolution
  Elements hidden_size{0};
  codec::Kind keys = codec::Kind::kF16;
  codec::Kind values = codec::Kind::kF16;
  Tokens page_positions{Layout::kMaxPagePositions};
};

// kKeys and kValues for attention layers, kConvState [conv_width - 1, hidden_size] (oldest first,
// initially 0) for the others.
Layout lfm2_layout(const Lfm2StateShape& shape);

// Dense models with grouped-query attention, over all positions or over a sliding window, mixed
// by layer as some models do.
struct GqaStateShape {
  std::vector<Heads> kv_heads = {};  // [n_layers]
  std::vector<Tokens> windows = {};  // [n_layers]; 0, also where the list is short: all positions
  Elements head_dim{0};              // of a head as stored, which is not always hidden / n_heads
  codec::Kind keys = codec::Kind::kF16;
  codec::Kind values = codec::Kind::kF16;
  Tokens page_positions{Layout::kMaxPagePositions};
};

// kKeys and kValues a layer: append without a window, windowed append with one.
Layout gqa_layout(const GqaStateShape& shape);

// Mamba-2: no rows at all, so a state costs the same at any position. Source: the recurrence of
// "Transformers are SSMs" (Dao and Gu, 2024), section 7.
struct Mamba2StateShape {
  Layers n_layers{0};
  std::int64_t n_ssm_heads = 0;
  std::int64_t ssm_head_dim = 0;
  Elements state_size{0};     // numbers a channel remembers
  std::int64_t n_groups = 1;  // that share B and C
  std::int64_t conv_width = 4;
};

// kConvState [conv_width - 1, heads * head_dim + 2 * n_groups * state_size] and kRecurrentState
// [heads * head_dim, state_size] a layer, both initially 0.
Layout mamba2_layout(const Mamba2StateShape& shape);

// DeepSeek-V4. Every layer has a ring of the last `window` rows, which serve as keys and as values.
// A layer of ratio 4 or 128 also appends one compressed row a group of positions and keeps the
// compressor's state between; ratio 4 does the same once more for its indexer.
struct DeepSeekV4StateShape {
  Layers n_layers{0};
  std::vector<std::int64_t> compress_ratios = {};  // [n_layers] or longer: extra ones are ignored
  Elements head_dim{512};
  Elements index_head_dim{128};
  Tokens window{128};
  Tokens max_positions{1048576};  // of the model
  codec::Kind rows = codec::Kind::kBf16;
  Tokens page_positions{Layout::kMaxPagePositions};
};

struct DeepSeekV4Declaration {
  Layout layout;
  // Ratios beyond the layers, worth a note to the user: configurations list the extra blocks for
  // speculative decoding there.
  std::int64_t n_ignored_ratios = 0;
};

// A layer's components in order, d = head_dim, i = index_head_dim, two = 2 for ratio 4, else 1:
//   kWindowKv            ring, `window` rows of d
//   kCompressedKv        append, ratio r, rows of d                     r > 0
//   kIndexerKv           append, ratio 4, rows of i                     r = 4
//   kMainKvState         ring of groups of r, f32 [two * r, two * d], initially 0     r > 0
//   kMainScoreState      the same, initially -inf                                  r > 0
//   kIndexerKvState      ring of groups of 4, f32 [8, 2 * i], initially 0          r = 4
//   kIndexerScoreState   the same, initially -inf                                  r = 4
// A compressor's state is a ring, not a recurrent block: a position writes one row of it, so taking
// a position back or copying what is live never touches the rest.
// Errors, in this order: kSlidingWindow{actual: window, expected: 128} for a window that is no ring
// of 1 to 128; kLayerCount{actual: ratios, expected: n_layers} when ratios are missing;
// kCompressionRatio{layer, actual} for the first ratio that is not 0, 4 or 128.
// Source: DeepSeek's published model code and configurations; sizes as hf2q 0.1.4 counts them.
Result<DeepSeekV4Declaration> deepseek_v4_layout(const DeepSeekV4StateShape& shape);

// The plan of a DeepSeek-V4 state. Errors: kEmptyContext; kContextBound{actual: context, expected:
// max_positions}; those of deepseek_v4_layout; those of make_plan, where an overflow in the window
// or the compressed rows names kAttentionKv, the buffer that holds both in hf2q's count.
Result<Plan> plan_deepseek_v4(const DeepSeekV4StateShape& shape, const PlanRequest& request);

}  // namespace kvant::state
