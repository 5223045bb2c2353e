#include "kvant/state/snapshot.h"

#include <utility>

namespace kvant::state {

Snapshot Snapshot::of(std::shared_ptr<PagePool> pool, Contents contents) {
  auto content = std::make_shared<Content>();
  content->pool = std::move(pool);
  content->contents = std::move(contents);
  return Snapshot(std::move(content));
}

const Layout& Snapshot::layout() const { return content_->pool->plan().layout; }

template <class Visit>
void Snapshot::visit(const Visit& each) const {
  for (const PageTable& table : contents().tables) {
    for (const PoolRef& page : table.pages()) each(page);
  }
  if (contents().block) each(contents().block);
}

Bytes Snapshot::owned_bytes() const {
  Bytes sum{0};
  visit([&](const PoolRef& object) {
    if (object.is_unique()) sum += object.bytes();
  });
  return sum;
}

Bytes Snapshot::shared_bytes() const {
  Bytes sum{0};
  visit([&](const PoolRef& object) {
    if (!object.is_unique()) sum += object.bytes();
  });
  return sum;
}

}  // namespace kvant::state
