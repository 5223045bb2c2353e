#include "kvant/state/declarations.h"

namespace kvant::state {

Layout lfm2_layout(const Lfm2StateShape& shape) {
  Layout layout{.layers = {}, .page_positions = shape.page_positions};
  layout.layers.reserve(shape.kv_heads.size());
  for (const Heads kv_heads : shape.kv_heads) {
    LayerSpec layer;
    if (kv_heads == Heads(0)) {
      layer.components.push_back({.kind = ComponentKind::kConvState,
                                  .discipline = Discipline::kRecurrent,
                                  .n_rows = Rows(shape.conv_width - 1),
                                  .width = shape.hidden_size});
    } else {
      layer.components.push_back({.kind = ComponentKind::kKeys,
                                  .codec = shape.keys,
                                  .n_heads = kv_heads,
                                  .row_width = shape.head_dim});
      layer.components.push_back({.kind = ComponentKind::kValues,
                                  .codec = shape.values,
                                  .n_heads = kv_heads,
                                  .row_width = shape.head_dim});
    }
    layout.layers.push_back(std::move(layer));
  }
  return layout;
}

}  // namespace kvant::state
