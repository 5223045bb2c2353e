// The best sequential read of a mapped file: what a decode step, which reads all weights once, can
// be measured against.
#pragma once

#include <string>

#include "kvant/base/file.h"
#include "kvant/base/result.h"
#include "kvant/base/thread_pool.h"
#include "kvant/base/units.h"

namespace kvant::app {

class BandwidthProbe {
 public:
  static constexpr Bytes kFileBytes{512 << 20};

  // A file of random bytes in the directory, mapped and already without a name.
  // Errors: kFileWriteFailed, those of MappedFile::open.
  static NamedResult<BandwidthProbe> create(const std::string& directory);

  // Bytes a second of one read of the whole file by all threads of the pool, each a part of its own
  // from front to back.
  double measure(ThreadPool& pool);

  // The sum of the file's 64-bit words, as the last measurement computed it; it keeps the reads.
  std::uint64_t checksum() const { return checksum_; }

 private:
  explicit BandwidthProbe(MappedFile file) : file_(std::move(file)) {}

  MappedFile file_;
  std::uint64_t checksum_ = 0;
};

}  // namespace kvant::app
