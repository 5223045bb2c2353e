// Any bytes are either refused or read within their bounds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "kvant/model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using kvant::model::SafetensorsFile;
  using kvant::model::TensorInfo;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = SafetensorsFile::parse(bytes, "fuzz");
  if (!file) {
    if (describe(file.error()).empty()) std::abort();
    return 0;
  }
  std::size_t data_bytes = 0;
  for (const TensorInfo& tensor : file->tensors()) {
    if (file->find(tensor.name) != &tensor) std::abort();
    std::size_t sum = 0;
    for (const std::byte b : tensor.data) sum += static_cast<std::size_t>(b);
    data_bytes += tensor.data.size() + (sum & 0);
  }
  if (data_bytes > size) std::abort();
  return 0;
}
