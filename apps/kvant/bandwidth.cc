#include "apps/kvant/bandwidth.h"

#include <atomic>
#include <cstring>
#include <span>
#include <vector>

#include "apps/kvant/output_file.h"
#include "apps/kvant/temporary_directory.h"
#include "kvant/base/clock.h"
#include "kvant/base/prng.h"

namespace kvant::app {
namespace {

// A plain sum: compilers read it in vectors, one addition a load, so that memory is the limit.
std::uint64_t sum_words(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes.size() / sizeof(std::uint64_t); ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i * sizeof(word), sizeof(word));
    sum += word;
  }
  return sum;
}

NamedStatus write_file(const std::string& path) {
  constexpr std::size_t kPieceWords = 1 << 17;
  auto file = KVANT_TRY(OutputFile::create(path));
  SplitMix64 random(512);
  std::vector<std::uint64_t> piece(kPieceWords);
  for (std::size_t done = 0; done < BandwidthProbe::kFileBytes.size();
       done += kPieceWords * sizeof(std::uint64_t)) {
    for (std::uint64_t& word : piece) word = random.next();
    KVANT_TRY(file.write(std::as_bytes(std::span(piece))));
  }
  return file.close();
}

}  // namespace

NamedResult<BandwidthProbe> BandwidthProbe::create(const std::string& directory) {
  const auto folder = KVANT_TRY(TemporaryDirectory::create(directory));
  const std::string path = folder.path() + "/bytes";
  KVANT_TRY(write_file(path));
  return BandwidthProbe(KVANT_TRY(MappedFile::open(path)));
}

double BandwidthProbe::measure(ThreadPool& pool) {
  const auto bytes = file_.bytes();
  const auto n_parts = static_cast<std::size_t>(pool.n_threads());
  const std::size_t part_bytes =
      bytes.size() / n_parts / sizeof(std::uint64_t) * sizeof(std::uint64_t);
  std::atomic<std::uint64_t> sum{0};
  const auto read_all = [&] {
    pool.run(pool.n_threads(), [&](std::int64_t index, int) {
      const auto part = bytes.subspan(static_cast<std::size_t>(index) * part_bytes, part_bytes);
      sum.fetch_add(sum_words(part), std::memory_order_relaxed);
    });
  };
  // Untimed: a system that reclaims idle memory may have taken pages back since the last time.
  read_all();
  sum.store(0, std::memory_order_relaxed);
  const Stopwatch watch;
  read_all();
  const double seconds = watch.seconds();
  checksum_ = sum.load();
  return static_cast<double>(part_bytes * n_parts) / seconds;
}

}  // namespace kvant::app
