// Writes state files (state_file.h): to memory, or piece by piece to a sink.
//
// One pass over the state: each piece is copied from the device, summed while it is in the
// processor's cache, and handed on. The header, which holds the checksums, comes last. Memory taken
// is that of the header and, for a sink, of one piece.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/state/snapshot.h"
#include "kvant/state/state_file.h"

namespace kvant::state {

struct StateFileOptions {
  StateForm form = StateForm::kCompact;
  Fingerprint fingerprint{};
  // Stored beside the state, for who goes on from it; empty: not stored. Must outlive the writer.
  std::span<const TokenId> tokens = {};
  std::span<const float> logits = {};
};

// Takes the pieces of a file: ascending and without gaps from behind the header on, the header
// last.
class StateSink {
 public:
  virtual ~StateSink() = default;
  // Errors: any; writing then stops with it.
  virtual Status write(Bytes offset, std::span<const std::byte> bytes) = 0;
};

// Threads: one at a time a writer; the snapshot may be shared.
class StateFileWriter {
 public:
  // Lays the file out; reads no row yet.
  // Errors: kLimitExceeded{actual, expected} for more layers, or bytes of a header, than a reader
  // takes; kOutOfMemory.
  // Cost: O(pages).
  static Result<StateFileWriter> create(const Snapshot& snapshot, const StateFileOptions& options);

  // Of the file, exactly.
  Bytes bytes() const { return bytes_; }
  // Of all sections of pages and the block.
  Bytes payload_bytes() const;

  // Errors: kInvalidArgument{actual, expected: bytes()} for another size; the device's;
  // kOutOfMemory. What is in `out` is then unspecified.
  Status write(std::span<std::byte> out);
  // Errors: the sink's and those above.
  Status write(StateSink& sink);

 private:
  class Output;
  // Where the pages of one group lie in memory.
  struct GroupPages {
    std::vector<const std::byte*> pages;  // [n pages in the file]; null: no live row
  };

  StateFileWriter(Snapshot snapshot, const StateFileOptions& options, Geometry filed)
      : snapshot_(std::move(snapshot)), options_(options), filed_(std::move(filed)) {}
  Status lay_out();
  void place_pages(std::size_t group);
  void place_cut_pages(std::size_t group);
  Status write_sections(Output& output);
  Status write_section(const FileSection& section, Output& output);

  Snapshot snapshot_;
  StateFileOptions options_;
  Geometry filed_;  // without rollback: how the full form lies
  std::vector<GroupPages> groups_;
  StateFileHeader header_;
  Bytes first_section_{0};
  Bytes bytes_{0};
};

}  // namespace kvant::state
