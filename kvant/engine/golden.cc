#include "kvant/engine/golden.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <new>
#include <optional>

#include "kvant/model/safetensors.h"

namespace kvant::engine {
namespace {

using model::SafetensorsFile;
using model::TensorInfo;
using tensor::Dtype;

NamedError bad_tensor(ErrorCode code, std::string_view name, std::string_view what) {
  return {Error{.code = code}, fmt::format("golden tensor {}: {}", name, what)};
}

class GoldenReader {
 public:
  explicit GoldenReader(const SafetensorsFile& file) : file_(file) {}

  NamedResult<Golden> read() const {
    Golden golden;
    golden.tokens = KVANT_TRY(numbers<TokenId>("tokens", Dtype::kI32));
    const auto n = golden.tokens.size();
    golden.argmax = KVANT_TRY(numbers<TokenId>("argmax", Dtype::kI32, n));
    golden.logsumexp = KVANT_TRY(numbers<float>("logsumexp", Dtype::kF32, n));
    golden.nll = KVANT_TRY(numbers<float>("nll", Dtype::kF32, n == 0 ? 0 : n - 1));
    golden.logit_positions = KVANT_TRY(positions("logit_positions", n));
    golden.logits = KVANT_TRY(rows("logits"));
    golden.hidden_positions = KVANT_TRY(positions("hidden_positions", n));
    for (int layer = 0;; ++layer) {
      const std::string name = fmt::format("hidden.{}", layer);
      if (file_.find(name) == nullptr) break;
      golden.hidden.push_back(KVANT_TRY(rows(name)));
      KVANT_TRY(same_count(name, golden.hidden.back(), golden.hidden_positions.size()));
    }
    golden.greedy = KVANT_TRY(numbers<TokenId>("greedy", Dtype::kI32));
    golden.greedy_logits = KVANT_TRY(rows("greedy_logits"));
    KVANT_TRY(same_count("logits", golden.logits, golden.logit_positions.size()));
    if (golden.greedy_logits.n_rows > static_cast<std::int64_t>(golden.greedy.size())) {
      return bad_tensor(ErrorCode::kShapeMismatch, "greedy_logits", "more rows than greedy tokens");
    }
    return golden;
  }

 private:
  NamedResult<const TensorInfo*> find(std::string_view name, Dtype dtype, std::size_t rank) const {
    const TensorInfo* info = file_.find(name);
    if (info == nullptr) return bad_tensor(ErrorCode::kMissingTensor, name, "not in the file");
    if (info->dtype != dtype) {
      return bad_tensor(
          ErrorCode::kUnknownDtype, name,
          fmt::format("is {}, must be {}", tensor::name_of(info->dtype), tensor::name_of(dtype)));
    }
    if (info->shape.size() != rank) {
      return bad_tensor(ErrorCode::kShapeMismatch, name,
                        fmt::format("has {} dimensions, must have {}", info->shape.size(), rank));
    }
    return info;
  }

  template <class T>
  static std::vector<T> copy(const TensorInfo& info) {
    std::vector<T> out(info.n_elements().size());
    if (!out.empty()) std::memcpy(out.data(), info.data.data(), out.size() * sizeof(T));
    return out;
  }

  template <class T>
  NamedResult<std::vector<T>> numbers(std::string_view name, Dtype dtype,
                                      std::optional<std::size_t> n = std::nullopt) const {
    const TensorInfo* info = KVANT_TRY(find(name, dtype, 1));
    if (n && info->n_elements().size() != *n) {
      return NamedError(Error{.code = ErrorCode::kShapeMismatch,
                              .actual = info->n_elements().size(),
                              .expected = *n},
                        fmt::format("golden tensor {}", name));
    }
    return copy<T>(*info);
  }

  NamedResult<std::vector<std::int64_t>> positions(std::string_view name, std::size_t n) const {
    const auto values = KVANT_TRY(numbers<std::int32_t>(name, Dtype::kI32));
    for (const std::int32_t value : values) {
      if (value < 0 || static_cast<std::size_t>(value) >= n) {
        return bad_tensor(ErrorCode::kBadValue, name, fmt::format("position {} of {}", value, n));
      }
    }
    return std::vector<std::int64_t>(values.begin(), values.end());
  }

  NamedResult<FloatRows> rows(std::string_view name) const {
    const TensorInfo* info = KVANT_TRY(find(name, Dtype::kF32, 2));
    return FloatRows{
        .n_rows = info->shape[0], .width = info->shape[1], .values = copy<float>(*info)};
  }

  static NamedStatus same_count(std::string_view name, const FloatRows& rows, std::size_t n) {
    if (static_cast<std::size_t>(rows.n_rows) == n) return {};
    return NamedError(Error{.code = ErrorCode::kShapeMismatch,
                            .actual = static_cast<std::uint64_t>(rows.n_rows),
                            .expected = n},
                      fmt::format("golden tensor {}", name));
  }

  const SafetensorsFile& file_;
};

}  // namespace

NamedResult<Golden> read_golden(const std::string& path) {
  std::error_code ignored;
  const bool directory = std::filesystem::is_directory(path, ignored);
  const SafetensorsFile file =
      KVANT_TRY(SafetensorsFile::open(directory ? path + "/golden.safetensors" : path));
  try {
    return GoldenReader(file).read();
  } catch (const std::bad_alloc&) {
    return NamedError(Error{.code = ErrorCode::kOutOfMemory}, path);
  }
}

}  // namespace kvant::engine
