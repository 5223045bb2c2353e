// Any state file is refused, leaving the sequence as it was, or makes a sequence that can go on.
//
// Input: the first byte chooses what the rest changes: 0 stands for nothing (the rest is the file),
// 1 to 4 for a file of this program, of which triples (offset, two bytes; exclusive or, one byte)
// change bytes. Unless the byte's highest bit is set, checksums are made to fit afterwards, so that
// what the checksums would hide is reached too.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "kvant/base/hash.h"
#include "kvant/state/sequence.h"
#include "kvant/state/state_file.h"
#include "kvant/state/state_file_writer.h"
#include "state_file_generated.h"
#include "tests/support/state_worlds.h"

namespace {

using namespace kvant;
using namespace kvant::state;
using File = std::vector<std::byte>;

void require(bool condition) {
  if (!condition) std::abort();
}

std::shared_ptr<PagePool> make_pool(const Layout& layout, Shifts shifts) {
  return PagePool::create(tensor::host_device(), make_plan(layout, {.context = Tokens(24),
                                                                    .n_sequences = 4,
                                                                    .n_snapshots = 4,
                                                                    .max_rollback = Tokens(2),
                                                                    .shifts = shifts})
                                                     .value())
      .value();
}

// Every byte of a view, so that a wrong address is found.
std::size_t touch(const tensor::PagedRows& view) {
  std::size_t sum = 0;
  for (const tensor::Extent& extent : view.extents) {
    for (std::int64_t head = 0; head < view.n_heads; ++head) {
      for (std::int64_t row = 0; row < extent.n_rows; ++row) {
        const std::byte* at = view.row_at(extent, head, extent.first_row + row);
        for (std::int64_t i = 0; i < view.row_bytes; ++i) sum += static_cast<std::size_t>(at[i]);
      }
    }
  }
  return sum;
}

// One step of n tokens that writes rows of a constant; false when there is no room.
bool step(Sequence& sequence, std::int64_t n) {
  const Position start = sequence.position();
  if (!sequence.prepare(Tokens(n))) return false;
  for (const Placed& placed : sequence.pool()->geometry().components) {
    const ComponentKind kind = placed.spec.kind;
    if (placed.spec.discipline == Discipline::kRecurrent) {
      std::ranges::fill(std::span(sequence.recurrent(placed.layer, kind).value()), 1.0F);
      continue;
    }
    const auto view = placed.group < 0 ? sequence.ring_slots(placed.layer, kind).value()
                                       : sequence.rows(placed.layer, kind).value();
    for (const tensor::Extent& extent : view.extents) {
      const std::int64_t last = extent.first_row + extent.n_rows - 1;
      for (std::int64_t head = 0; head < view.n_heads && extent.n_rows > 0; ++head) {
        std::memset(view.row_at(extent, head, last), 1, static_cast<std::size_t>(view.row_bytes));
      }
    }
  }
  require(sequence.commit(start, Tokens(n)).has_value());
  return true;
}

File file_of(const Sequence& sequence, StateForm form) {
  auto writer = StateFileWriter::create(sequence.snapshot().value(), {.form = form}).value();
  File bytes(writer.bytes().size());
  require(writer.write(std::span(bytes)).has_value());
  return bytes;
}

struct World {
  std::shared_ptr<PagePool> full = make_pool(test::full_layout(4), Shifts::kNone);
  std::shared_ptr<PagePool> shifting = make_pool(test::shift_layout(4, 30), Shifts::kPlanned);
  std::array<File, 4> files;

  World() {
    Sequence cold = Sequence::create(full, Tokens(24)).value();
    require(step(cold, 9));
    Sequence shifted = Sequence::create(shifting, Tokens(24)).value();
    require(step(shifted, 17));
    require(shifted.shift({.keep = Position(3), .n = Tokens(2)}).has_value());
    require(step(shifted, 1));
    require(shifted.shift({.keep = Position(6), .n = Tokens(1)}).has_value());
    files = {file_of(cold, StateForm::kCompact), file_of(cold, StateForm::kFull),
             file_of(shifted, StateForm::kCompact), file_of(shifted, StateForm::kFull)};
  }
};

File file_of_input(std::span<const std::byte> input, const World& world) {
  const auto choice = static_cast<std::size_t>(input.front()) & 0x7F;
  input = input.subspan(1);
  if (choice == 0) return {input.begin(), input.end()};
  File file = world.files[(choice - 1) % world.files.size()];
  for (; input.size() >= 3; input = input.subspan(3)) {
    const std::size_t at =
        static_cast<std::size_t>(input[0]) | (static_cast<std::size_t>(input[1]) << 8);
    file[at % file.size()] ^= input[2];
  }
  return file;
}

void put(File& file, std::size_t at, const Digest128& digest) {
  std::memcpy(file.data() + at, &digest.low, sizeof(digest.low));
  std::memcpy(file.data() + at + 8, &digest.high, sizeof(digest.high));
}

// Checksums of sections that lie in the file, then of the header.
void mend(File& file) {
  constexpr std::size_t kPrelude = 64;
  if (file.size() < kPrelude) return;
  std::uint32_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data() + 12, sizeof(header_bytes));
  if (header_bytes > file.size() - kPrelude) return;
  std::vector<std::uint64_t> words(header_bytes / 8 + 1);
  std::memcpy(words.data(), file.data() + kPrelude, header_bytes);
  flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(words.data()), header_bytes);
  if (schema::VerifyHeaderBuffer(verifier)) {
    const auto& sections = *schema::GetHeader(words.data())->sections();
    // Which FlatBuffers' verifier lets pass and the reader must not.
    if (reinterpret_cast<std::uintptr_t>(sections.Data()) % alignof(schema::Section) != 0) return;
    for (const schema::Section* section : sections) {
      if (section->offset() > file.size() || section->bytes() > file.size() - section->offset()) {
        continue;
      }
      const auto* in_words = reinterpret_cast<const std::byte*>(section);
      const auto at =
          static_cast<std::size_t>(in_words - reinterpret_cast<const std::byte*>(words.data()));
      put(file, kPrelude + at + 32,
          xxh3_128(std::span(file).subspan(section->offset(), section->bytes())));
    }
  }
  Xxh3Stream sum = Xxh3Stream::create().value();
  sum.update(std::span(file).first(32));
  sum.update(std::span(file).subspan(kPrelude, header_bytes));
  put(file, 32, sum.digest());
}

// What was loaded can be read, saved again, and goes on.
void go_on(Sequence& sequence, const StateFile& file) {
  require(sequence.position() == file.header().position && !sequence.poisoned());
  std::size_t sum = 0;
  for (const Placed& placed : sequence.pool()->geometry().components) {
    if (placed.spec.discipline == Discipline::kRecurrent) continue;
    sum += touch(sequence.read_rows(placed.layer, placed.spec.kind).value());
  }
  const File again = file_of(sequence, file.header().form);
  require(StateFile::open(again).has_value() && sum + 1 > sum);
  step(sequence, 1);
  step(sequence, 3);
  if (sequence.can_roll_back(Tokens(1))) require(sequence.rollback(Tokens(1)).has_value());
  static_cast<void>(sequence.shift({.keep = Position(2), .n = Tokens(3)}));
  static_cast<void>(sequence.shift({.keep = Position(0), .n = Tokens(1)}));
  step(sequence, 5);
  static_cast<void>(file_of(sequence, StateForm::kCompact));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const World world;
  if (size == 0) return 0;
  File bytes = file_of_input(std::as_bytes(std::span(data, size)), world);
  if ((data[0] & 0x80) == 0) mend(bytes);
  const auto file = StateFile::open(bytes);
  if (!file) {
    require(!describe(file.error()).empty());
    return 0;
  }
  static_cast<void>(file->tokens());
  for (const auto& pool : {world.full, world.shifting}) {
    const Bytes before = pool->used();
    {
      Sequence sequence = Sequence::create(pool, Tokens(24)).value();
      require(step(sequence, 2));
      if (file->restore(sequence, file->header().fingerprint)) {
        go_on(sequence, *file);
      } else {
        require(sequence.position() == Position(2) && !sequence.step_open());
      }
    }
    require(pool->used() == before);
  }
  return 0;
}
