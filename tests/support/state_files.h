// State files for tests: written from sequences, loaded back, made over with checksums that fit.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kvant/state/sequence.h"
#include "kvant/state/state_file.h"
#include "kvant/state/state_file_header.h"
#include "kvant/state/state_file_writer.h"
#include "tests/support/reference_state.h"

namespace kvant::test {

using FileBytes = std::vector<std::byte>;

// Some fingerprint; the same for the same letter.
inline state::Fingerprint fingerprint_for_tests(char letter = 'a') {
  state::Fingerprint fingerprint;
  fingerprint.digest.bytes.fill(static_cast<std::byte>(letter));
  return fingerprint;
}

inline FileBytes file_of(const state::Sequence& sequence,
                         state::StateForm form = state::StateForm::kCompact) {
  auto writer =
      state::StateFileWriter::create(sequence.snapshot().value(),
                                     {.form = form, .fingerprint = fingerprint_for_tests()})
          .value();
  FileBytes bytes(writer.bytes().size(), std::byte{0xCD});
  const Status status = writer.write(std::span(bytes));
  EXPECT_TRUE(status) << describe(status.error());
  return bytes;
}

// What is remembered after loading: nothing can be taken back.
inline Remembered without_history(Remembered remembered) {
  remembered.depth = 0;
  remembered.reachable.assign(remembered.folded.size() + 1, 0);
  remembered.reachable.back() = 1;
  return remembered;
}

// The same sections under another header, whose checksums are made to fit: what a hostile writer
// can do. Sections lie where the header says they should if they were as long as it says.
inline FileBytes with_header(std::span<const std::byte> file, state::StateFileHeader header) {
  const auto old = state::decode_front(file).value();
  Bytes begin(static_cast<std::int64_t>(state::encode_front(header, Bytes(0)).value().size()));
  const Bytes moved = begin - old.end;
  for (state::FileSection& section : header.sections) section.offset += moved;
  const Bytes file_bytes = Bytes(static_cast<std::int64_t>(file.size())) + moved;
  FileBytes out = state::encode_front(header, file_bytes).value();
  out.insert(out.end(), file.begin() + old.end.value(), file.end());
  return out;
}

// A sequence with what it should remember beside it.
struct Story {
  Story(const std::shared_ptr<state::PagePool>& pool, Tokens context)
      : sequence(state::Sequence::create(pool, context).value()) {}

  // One step of n tokens; their stamps follow those before.
  void step(std::int64_t n) {
    const Position start = sequence.position();
    const Status prepared = sequence.prepare(Tokens(n));
    ASSERT_TRUE(prepared) << describe(prepared.error());
    remembered.open_stamps.clear();
    for (std::int64_t i = 0; i < n; ++i) remembered.open_stamps.push_back(next_stamp++);
    ASSERT_EQ(write_step(sequence, remembered, Versions::kLast), "");
    ASSERT_TRUE(sequence.commit(start, Tokens(n)));
    const Stamps stamps = std::exchange(remembered.open_stamps, {});
    const std::int64_t delta = sequence.position_runs().back().delta;
    for (std::int64_t i = 0; i < n; ++i) {
      remembered.stored.push_back(start.value() + i - delta);
      remembered.stamps.push_back(stamps[static_cast<std::size_t>(i)]);
      remembered.folded.push_back(stamps[static_cast<std::size_t>(i)]);
    }
    remembered = without_history(std::move(remembered));
  }
  // Steps of one token.
  void run(std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) step(1);
  }
  // Goes on from a file of a sequence that remembers `then`.
  Status load(std::span<const std::byte> file, const Remembered& then) {
    const Status status = state::load_state(sequence, file, fingerprint_for_tests());
    if (!status) return status;
    remembered = without_history(then);
    for (const std::int64_t stamp : then.folded) next_stamp = std::max(next_stamp, stamp + 1);
    return status;
  }
  std::string compare() const { return compare_all(sequence, remembered); }

  state::Sequence sequence;
  Remembered remembered;
  std::int64_t next_stamp = 1;
};

}  // namespace kvant::test
