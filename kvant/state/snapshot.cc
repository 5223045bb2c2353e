#include "kvant/state/snapshot.h"

namespace kvant::state {

Position Snapshot::position() const { return content_->position; }

const Layout& Snapshot::layout() const { return content_->pool->plan().layout; }

template <class Visit>
void Snapshot::visit(const Visit& each) const {
  for (const auto& group : content_->pages) {
    for (const PoolRef& page : group) each(page);
  }
  if (content_->block) each(content_->block);
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
