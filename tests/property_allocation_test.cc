// After the first token, decoding takes nothing from the heap. A program of its own, since it
// counts operator new.
#include <gtest/gtest.h>

#include <string>

#include "kvant/engine/session.h"
#include "tests/support/counting_new.h"

namespace kvant::engine {
namespace {

class DecodeAllocations : public testing::TestWithParam<SamplerOptions> {};

TEST_P(DecodeAllocations, AreNoneAfterTheFirstToken) {
  const auto model = model::load_model(std::string(KVANT_SOURCE_DIR) + "/tests/golden/lfm2");
  ASSERT_TRUE(model) << describe(model.error());
  auto session = Session::create(*model, *create_machine(2), {.context = Tokens(512)});
  ASSERT_TRUE(session);
  auto sampler = Sampler::create(GetParam(), (*model)->config.vocab_size);
  ASSERT_TRUE(sampler);
  ASSERT_TRUE((*session)->append(std::vector<TokenId>(100, 3)));

  std::int64_t n_tokens = 0;
  std::int64_t after_first = 0;
  const auto reason = (*session)->generate({.max_tokens = 400}, *sampler, [&](TokenId) {
    if (++n_tokens == 2) after_first = test::n_allocations();
    return true;
  });
  const std::int64_t at_end = test::n_allocations();
  ASSERT_TRUE(reason) << describe(reason.error());
  EXPECT_EQ(n_tokens, 400) << "the run must cross page borders";
  EXPECT_EQ(at_end - after_first, 0);
}

INSTANTIATE_TEST_SUITE_P(Samplers, DecodeAllocations,
                         testing::Values(SamplerOptions{},
                                         SamplerOptions{.temperature = 1.0,
                                                        .top_k = 20,
                                                        .top_p = 0.9,
                                                        .min_p = 0.01,
                                                        .repetition_penalty = 1.1}),
                         [](const auto& test) { return test.index == 0 ? "Greedy" : "Random"; });

}  // namespace
}  // namespace kvant::engine
