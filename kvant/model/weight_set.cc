#include "kvant/model/weight_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "kvant/model/json.h"

namespace kvant::model {
namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kSingleName = "model.safetensors";
constexpr JsonLimits kIndexLimits{.bytes_max = std::size_t{64} << 20, .depth_max = 8};

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// A name in the model's own directory; anything else could point at other people's files.
bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

// The M of a name like "model-00002-of-0000M.safetensors"; none for other names.
std::optional<std::size_t> shard_count_in(std::string_view name) {
  constexpr std::string_view kMark = "-of-";
  const std::size_t at = name.rfind(kMark);
  if (at == std::string_view::npos) return std::nullopt;
  std::size_t count = 0;
  std::size_t n_digits = 0;
  for (const char c : name.substr(at + kMark.size())) {
    if (c < '0' || c > '9' || n_digits == 9) break;
    count = count * 10 + static_cast<std::size_t>(c - '0');
    ++n_digits;
  }
  if (n_digits == 0) return std::nullopt;
  return count;
}

struct ShardIndex {
  std::vector<std::pair<std::string, std::string>> file_of_tensor;  // ascending by tensor
  std::set<std::string> files;
};

NamedResult<ShardIndex> read_index(const std::string& path) {
  const std::string text =
      KVANT_TRY(read_text_file(path, Bytes(static_cast<std::int64_t>(kIndexLimits.bytes_max))));
  const JsonDocument document =
      KVANT_TRY(JsonDocument::parse({.name = path, .text = text}, kIndexLimits));
  const JsonObject root = KVANT_TRY(document.object());
  const JsonObject map = KVANT_TRY(root.object("weight_map"));
  ShardIndex index;
  for (const JsonObject::Member& member : map.members()) {
    std::string_view file;
    if (member.value.get_string().get(file) != simdjson::SUCCESS || !is_plain_file_name(file)) {
      return map.bad_value(member.key, "the name of a file beside the index");
    }
    index.file_of_tensor.emplace_back(member.key, file);
    index.files.emplace(file);
  }
  if (index.files.empty()) return root.bad_value("weight_map", "an object with members");
  for (const std::string& file : index.files) {
    const auto claimed = shard_count_in(file);
    if (claimed && *claimed != index.files.size()) {
      return NamedError({.code = ErrorCode::kBadValue},
                        fmt::format("{}: {} speaks of {} shards, weight_map names {}", map.where(),
                                    in_quotes(file), *claimed, index.files.size()));
    }
  }
  return index;
}

NamedStatus check_unique(std::span<const SafetensorsFile> files) {
  std::map<std::string_view, const SafetensorsFile*> owner;
  for (const SafetensorsFile& file : files) {
    for (const TensorInfo& tensor : file.tensors()) {
      const auto [at, added] = owner.emplace(tensor.name, &file);
      if (added) continue;
      return NamedError({.code = ErrorCode::kDuplicateName},
                        fmt::format("tensor {} is in {} and in {}", in_quotes(tensor.name),
                                    short_path(at->second->path()), short_path(file.path())));
    }
  }
  return {};
}

}  // namespace

NamedResult<WeightSet> WeightSet::open(const std::string& directory, FileAccess access) {
  return without_bad_alloc([&]() -> NamedResult<WeightSet> {
    const std::string index_path = fmt::format("{}/{}", directory, kIndexName);
    const std::string single_path = fmt::format("{}/{}", directory, kSingleName);
    WeightSet set;
    if (!exists(index_path)) {
      if (!exists(single_path)) {
        return NamedError(
            {.code = ErrorCode::kMissingFile},
            fmt::format("{}: neither {} nor {}", short_path(directory), kSingleName, kIndexName));
      }
      set.files_.push_back(KVANT_TRY(SafetensorsFile::open(single_path, access)));
      for (const TensorInfo& tensor : set.files_.front().tensors()) {
        set.tensors_.push_back(&tensor);
      }
      return set;
    }

    const ShardIndex index = KVANT_TRY(read_index(index_path));
    std::map<std::string_view, std::size_t> file_number;
    for (const std::string& file : index.files) {
      const std::string path = fmt::format("{}/{}", directory, file);
      if (!exists(path)) {
        return NamedError({.code = ErrorCode::kMissingFile},
                          fmt::format("{}: named by {}", short_path(path), kIndexName));
      }
      file_number.emplace(file, set.files_.size());
      set.files_.push_back(KVANT_TRY(SafetensorsFile::open(path, access)));
    }
    KVANT_TRY(check_unique(set.files_));
    for (const auto& [name, file] : index.file_of_tensor) {
      const TensorInfo* tensor = set.files_[file_number.at(file)].find(name);
      if (tensor == nullptr) {
        return NamedError({.code = ErrorCode::kMissingTensor},
                          fmt::format("{}: {} places it in {}", in_quotes(name), kIndexName, file));
      }
      set.tensors_.push_back(tensor);
    }
    return set;
  });
}

const TensorInfo* WeightSet::find(std::string_view name) const {
  const auto at = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const TensorInfo* tensor, std::string_view wanted) { return tensor->name < wanted; });
  return at != tensors_.end() && (*at)->name == name ? *at : nullptr;
}

NamedResult<const TensorInfo*> WeightSet::require(std::string_view name,
                                                  std::span<const std::int64_t> shape) const {
  const TensorInfo* tensor = find(name);
  if (tensor == nullptr) {
    return NamedError({.code = ErrorCode::kMissingTensor}, in_quotes(name));
  }
  const auto mismatch = [&](std::size_t actual, std::size_t expected, std::string_view what) {
    return NamedError({.code = ErrorCode::kShapeMismatch, .actual = actual, .expected = expected},
                      fmt::format("{}: shape is [{}], must be [{}] ({})", in_quotes(name),
                                  fmt::join(tensor->shape, ", "), fmt::join(shape, ", "), what));
  };
  if (tensor->shape.size() != shape.size()) {
    return mismatch(tensor->shape.size(), shape.size(), "number of dimensions");
  }
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (tensor->shape[i] == shape[i]) continue;
    return mismatch(static_cast<std::size_t>(tensor->shape[i]), static_cast<std::size_t>(shape[i]),
                    fmt::format("dimension {}", i));
  }
  return tensor;
}

Bytes WeightSet::data_bytes() const {
  Bytes total;
  for (const TensorInfo* tensor : tensors_) {
    total += Bytes(static_cast<std::int64_t>(tensor->data.size()));
  }
  return total;
}

}  // namespace kvant::model
