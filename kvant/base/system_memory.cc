#include "kvant/base/system_memory.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <string>

namespace kvant {
namespace {

// A control group's limit; the file holds "max" where there is none.
Bytes limit_in(const char* path) {
  std::ifstream file(path);
  std::int64_t limit = 0;
  return file >> limit ? Bytes(limit) : Bytes(std::numeric_limits<std::int64_t>::max());
}

}  // namespace

Bytes physical_memory() {
  const auto pages = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES));
  const Bytes machine(pages * static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE)));
  return std::min({machine, limit_in("/sys/fs/cgroup/memory.max"),
                   limit_in("/sys/fs/cgroup/memory/memory.limit_in_bytes")});
}

Bytes kernel_figure(const char* path, std::string_view name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ':') continue;
    const std::size_t digits = line.find_first_of("0123456789");
    if (digits == std::string::npos) break;
    std::int64_t kibibytes = 0;
    std::from_chars(line.data() + digits, line.data() + line.size(), kibibytes);
    return Bytes(kibibytes * 1024);
  }
  return Bytes(0);
}

}  // namespace kvant
