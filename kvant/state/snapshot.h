// A snapshot: what a sequence remembers at one position, as a value.
//
// It holds references, not copies: pages and the block are counted, and whoever writes a shared one
// copies it first. So taking one costs a table of references, copying one costs a pointer, and it
// stays good whatever its source does afterwards: go on, be reset, be poisoned, be destroyed.
//
// Threads: a snapshot is immutable; any threads may read, copy and destroy copies of it.
#pragma once

#include <memory>
#include <span>

#include "kvant/base/units.h"
#include "kvant/state/contents.h"
#include "kvant/state/layout.h"
#include "kvant/state/pool.h"

namespace kvant::state {

class Snapshot {
 public:
  // What objects of a pool hold, filled by somebody else than a sequence: the reader of files.
  // Requires: the invariants of Contents, for a sequence of the pool's plan. Throws std::bad_alloc.
  static Snapshot of(std::shared_ptr<PagePool> pool, Contents contents);

  Position position() const { return contents().position; }
  const Layout& layout() const;
  Lineage lineage() const { return contents().lineage; }

  // Bytes that would return to the pool with the last copy of this snapshot, and bytes that
  // sequences or other snapshots refer to as well (the block of initial values is always shared).
  // Exact while no other thread uses the pool.
  Bytes owned_bytes() const;
  Bytes shared_bytes() const;

  // For the readers of this room: files and sequences.
  const Contents& contents() const { return content_->contents; }
  const std::shared_ptr<PagePool>& pool() const { return content_->pool; }

 private:
  friend class Sequence;
  struct Content {
    std::shared_ptr<PagePool> pool;  // first, so that it goes last
    Contents contents;
  };

  explicit Snapshot(std::shared_ptr<const Content> content) : content_(std::move(content)) {}
  template <class Visit>
  void visit(const Visit& each) const;

  // Shared because it never changes: copies of a snapshot are one table of references.
  std::shared_ptr<const Content> content_;
};

}  // namespace kvant::state
