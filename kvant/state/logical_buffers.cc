#include "kvant/state/logical_buffers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <new>

namespace kvant::state {
namespace {

// Compressor states count as [1, rows, width].
bool holds_rows(const ComponentPlan& component) {
  return component.discipline != Discipline::kRecurrent &&
         component.kind != ComponentKind::kMainKvState &&
         component.kind != ComponentKind::kMainScoreState &&
         component.kind != ComponentKind::kIndexerKvState &&
         component.kind != ComponentKind::kIndexerScoreState;
}

LogicalBuffer buffer_of(const ComponentPlan& component) {
  LogicalBuffer buffer{.layer = component.layer,
                       .kind = component.kind,
                       .dtype = component.dtype,
                       .dims = component.shape,
                       .bytes = component.logical_bytes};
  if (holds_rows(component) && component.shape[0] == 1) {
    buffer.dims = {component.shape[1], component.shape[2], 0};
    buffer.n_dims = 2;
  }
  return buffer;
}

// The ring and the compressed rows of a layer, which may be none. Requires: equal rows.
void add_attention(const ComponentPlan& ring, const ComponentPlan* compressed,
                   std::vector<LogicalBuffer>& buffers) {
  LogicalBuffer window = buffer_of(ring);
  window.view_offset = Bytes(0);
  LogicalBuffer attention = window;
  attention.kind = ComponentKind::kAttentionKv;
  attention.view_offset.reset();
  if (compressed != nullptr) {
    attention.dims[0] += compressed->shape[1];
    attention.bytes += compressed->logical_bytes;
  }
  buffers.push_back(attention);
  buffers.push_back(window);
  if (compressed == nullptr || compressed->logical_bytes == Bytes(0)) return;
  buffers.push_back(buffer_of(*compressed));
  buffers.back().view_offset = window.bytes;
}

bool is_latent_ring(const ComponentPlan& component) {
  return component.kind == ComponentKind::kWindowKv && component.shape[0] == 1 &&
         component.discipline == Discipline::kRing;
}

}  // namespace

std::string LogicalBuffer::shape_text() const {
  return fmt::format("[{}]", fmt::join(shape(), ", "));
}

Result<std::vector<LogicalBuffer>> logical_buffers(const Plan& plan) {
  try {
    std::vector<LogicalBuffer> buffers;
    for (const ComponentPlan& component : plan.components) {
      const ComponentPlan* ring = plan.find(component.layer, ComponentKind::kWindowKv);
      const bool has_ring = ring != nullptr && is_latent_ring(*ring);
      if (has_ring && &component == ring) {
        add_attention(*ring, plan.find(component.layer, ComponentKind::kCompressedKv), buffers);
      } else if (has_ring && component.kind == ComponentKind::kCompressedKv) {
        continue;  // behind the ring already
      } else if (component.logical_bytes > Bytes(0)) {
        buffers.push_back(buffer_of(component));
      }
    }
    return buffers;
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory};
  }
}

}  // namespace kvant::state
