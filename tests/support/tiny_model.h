// The small golden model, for tests that need any model at all.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "kvant/model/loader.h"

namespace kvant::test {

inline const std::string kTinyModelDir = std::string(KVANT_SOURCE_DIR) + "/tests/golden/lfm2";

inline std::shared_ptr<const model::LoadedModel> tiny_model() {
  auto model = model::load_model(kTinyModelDir);
  EXPECT_TRUE(model) << describe(model.error());
  return *model;
}

}  // namespace kvant::test
