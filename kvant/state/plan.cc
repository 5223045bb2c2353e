#include "kvant/state/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <new>
#include <optional>

#include "kvant/base/checked.h"
#include "kvant/state/sequence.h"

namespace kvant::state {
namespace {

constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
// Half of what x86-64 and ARM processors map for a program (2^47).
constexpr std::int64_t kMaxAddressBytes = std::int64_t{1} << 46;

Status validate_request(const PlanRequest& request) {
  if (request.context.value() < 1) return Error{.code = ErrorCode::kEmptyContext};
  const struct {
    std::int64_t actual, least;
  } bounds[] = {{request.n_sequences, 1},
                {request.n_snapshots, 0},
                {request.max_step.value(), 1},
                {request.max_rollback.value(), 0}};
  for (const auto& bound : bounds) {
    if (bound.actual < bound.least) {
      return Error{.code = ErrorCode::kInvalidArgument,
                   .actual = static_cast<std::uint64_t>(bound.actual),
                   .expected = static_cast<std::uint64_t>(bound.least)};
    }
  }
  return ok();
}

Error overflow(LayerIndex layer, ComponentKind kind) {
  return Error{.code = ErrorCode::kByteOverflow,
               .component = kind,
               .layer = static_cast<std::int32_t>(layer.value()),
               .actual = std::numeric_limits<std::uint64_t>::max()};
}

// Everything of a component but its bytes.
ComponentPlan describe_component(const Placed& placed, Tokens context) {
  const ComponentSpec& spec = placed.spec;
  ComponentPlan plan{.layer = placed.layer, .kind = spec.kind, .discipline = spec.discipline};
  const std::int64_t heads = spec.n_heads.value();
  const std::int64_t width = spec.row_width.value();
  if (spec.discipline != Discipline::kRecurrent) plan.dtype = codec::dtype_of(spec.codec);
  switch (spec.discipline) {
    case Discipline::kAppend:
      plan.shape = {heads, context.value() / spec.ratio, width};
      break;
    case Discipline::kWindowedAppend:
      plan.shape = {heads, std::min(spec.window, context).value(), width};
      break;
    case Discipline::kRing: {
      // A compressor's groups are filled up whatever the context.
      const Tokens rows = spec.group > Tokens(0) ? spec.window : std::min(spec.window, context);
      plan.shape = {heads, rows.value(), width};
      break;
    }
    case Discipline::kRecurrent:
      plan.shape = {1, spec.n_rows.value(), spec.width.value()};
      break;
  }
  return plan;
}

// Fills plan.components and plan.logical_bytes. Counts in unsigned 64 bits, so that the component
// named by an overflow is the first whose sum leaves what a file or a device could express.
Status count_components(Plan& plan) {
  std::uint64_t sum = 0;
  for (const Placed& placed : plan.geometry.components) {
    ComponentPlan component = describe_component(placed, plan.request.context);
    const auto size = [&](std::size_t i) { return static_cast<std::uint64_t>(component.shape[i]); };
    const auto bytes = checked_product<std::uint64_t>(
        {size(0), size(1), size(2), static_cast<std::uint64_t>(tensor::bytes_of(component.dtype))});
    const auto total = bytes ? checked_add(sum, *bytes) : std::nullopt;
    if (!total) return overflow(placed.layer, component.kind);
    sum = *total;
    component.logical_bytes = Bytes(static_cast<std::int64_t>(*bytes));
    plan.components.push_back(component);
  }
  if (sum > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return overflow(LayerIndex(-1), ComponentKind::kNone);
  }
  plan.logical_bytes = Bytes(static_cast<std::int64_t>(sum));
  return ok();
}

// Views count heads and numbers of a row in 32 bits.
Status check_view_limits(const Geometry& geometry) {
  for (const Placed& placed : geometry.components) {
    const auto widest = std::max(placed.spec.n_heads.value(), placed.spec.row_width.value());
    if (widest > kMaxInt32) {
      return Error{.code = ErrorCode::kAddressSpace,
                   .component = placed.spec.kind,
                   .layer = static_cast<std::int32_t>(placed.layer.value()),
                   .actual = static_cast<std::uint64_t>(placed.bytes.value()),
                   .expected = static_cast<std::uint64_t>(kMaxInt32)};
    }
  }
  return ok();
}

// n * a + b, none on overflow or when an operand is none.
std::optional<std::int64_t> scaled_sum(std::int64_t n, std::optional<std::int64_t> a,
                                       std::optional<std::int64_t> b) {
  const auto product = a ? checked_mul(n, *a) : std::nullopt;
  return product && b ? checked_add(*product, *b) : std::nullopt;
}

// Address space when each class may use the whole budget.
std::optional<std::int64_t> address_bytes(const Plan& plan) {
  std::optional<std::int64_t> sum = 0;
  // Slots are numbered in 32 bits, the last number marking the end of a list.
  constexpr std::int64_t kMaxSlots = std::numeric_limits<std::uint32_t>::max();
  for (std::size_t c = 0; c < plan.geometry.n_classes(); ++c) {
    if (plan.n_slots(c) > kMaxSlots) return std::nullopt;
    sum = scaled_sum(plan.n_slots(c), plan.geometry.class_bytes(c).value(), sum);
  }
  return sum;
}

// The pages of a group that one sequence holds at most. With a window, the live positions are one
// run: from what the oldest query sees that a rollback can return to, up to the end of a step.
Pages pages_of(const PageGroup& group, const PlanRequest& request, Tokens page_positions) {
  const std::int64_t page = page_positions.value();
  const std::int64_t context = request.context.value();
  const std::int64_t all = (context - 1) / page + 1;
  const std::int64_t holes = request.shifts == Shifts::kPlanned ? 2 : 0;
  if (group.window == Tokens(0)) return Pages(all + holes);
  std::optional<std::int64_t> live = -1;  // the window holds the first position of the step
  for (const Tokens part : {group.window, request.max_rollback, request.max_step}) {
    live = live ? checked_add(*live, part.value()) : std::nullopt;
  }
  if (!live || *live >= context) return Pages(all + holes);
  // A run may begin at the last position of a page.
  const std::int64_t behind_first = *live - 1;
  const std::int64_t touched = behind_first / page + (behind_first % page != 0 ? 2 : 1);
  return Pages(std::min(all, touched) + holes);
}

Status count_pool(Plan& plan) {
  const PlanRequest& request = plan.request;
  const Geometry& geometry = plan.geometry;
  const std::int64_t page = geometry.page_positions.value();
  plan.pages_per_sequence = Pages((request.context.value() - 1) / page + 1);

  std::optional<std::int64_t> one_page_each = 0;
  std::optional<std::int64_t> one_sequence = 0;
  for (const PageGroup& group : geometry.groups) {
    plan.group_pages.push_back(pages_of(group, request, geometry.page_positions));
    one_page_each = scaled_sum(1, group.page_bytes.value(), one_page_each);
    one_sequence =
        scaled_sum(plan.group_pages.back().value(), group.page_bytes.value(), one_sequence);
  }
  const std::int64_t block = geometry.block_bytes.value();
  const auto page_bytes = scaled_sum(request.n_sequences, one_sequence, 0);
  const auto recurrent_bytes = scaled_sum(request.n_sequences, block, block);
  const auto diverging_bytes = scaled_sum(1, block, one_page_each);
  const auto snapshot_bytes = scaled_sum(request.n_snapshots, diverging_bytes, 0);
  const auto pool_bytes = scaled_sum(1, snapshot_bytes, scaled_sum(1, page_bytes, recurrent_bytes));
  if (!pool_bytes) return overflow(LayerIndex(-1), ComponentKind::kNone);
  plan.diverging_bytes = Bytes(*diverging_bytes);
  plan.page_bytes = Bytes(*page_bytes);
  plan.recurrent_bytes = Bytes(*recurrent_bytes);
  plan.snapshot_bytes = Bytes(*snapshot_bytes);
  plan.pool_bytes = Bytes(*pool_bytes);

  const auto address = address_bytes(plan);
  if (!address || *address > kMaxAddressBytes) {
    return Error{.code = ErrorCode::kAddressSpace,
                 .actual = static_cast<std::uint64_t>(address.value_or(*pool_bytes)),
                 .expected = static_cast<std::uint64_t>(kMaxAddressBytes)};
  }
  plan.address_bytes = Bytes(*address);
  return ok();
}

Status count_tables(Plan& plan) {
  // What the pool can hold bounds the tables, so one sequence's fit.
  const auto all = checked_mul(plan.request.n_sequences, Sequence::table_bytes_for(plan).value());
  const auto total = scaled_sum(1, all, plan.pool_bytes.value());
  if (!total) return overflow(LayerIndex(-1), ComponentKind::kNone);
  plan.table_bytes = Bytes(*all);
  return ok();
}

}  // namespace

std::string ComponentPlan::shape_text() const {
  return fmt::format("[{}, {}, {}]", shape[0], shape[1], shape[2]);
}

std::int64_t Plan::n_planned(std::size_t object_class) const {
  const bool is_block = object_class == geometry.block_class();
  const std::int64_t a_sequence = is_block ? 1 : group_pages[object_class].value();
  return request.n_sequences * a_sequence + request.n_snapshots + (is_block ? 1 : 0);
}

std::int64_t Plan::n_slots(std::size_t object_class) const {
  return pool_bytes.value() / geometry.class_bytes(object_class).value();
}

Pages Plan::group_pages_for(std::size_t group, Tokens context) const {
  PlanRequest smaller = request;
  smaller.context = context;
  return pages_of(geometry.groups[group], smaller, geometry.page_positions);
}

Bytes Plan::rollback_bytes() const {
  Bytes block{0};
  for (const Placed& placed : geometry.components) {
    if (placed.group >= 0) continue;
    const bool is_ring = placed.spec.discipline == Discipline::kRing;
    const Bytes one =
        is_ring ? placed.row_bytes * placed.spec.n_heads.value() : placed.version_bytes;
    block += one * geometry.max_rollback.value();
  }
  Bytes sum = block * (request.n_sequences + request.n_snapshots + 1);
  PlanRequest without = request;
  without.max_rollback = Tokens(0);
  for (std::size_t group = 0; group < group_pages.size(); ++group) {
    const Pages fewer = pages_of(geometry.groups[group], without, geometry.page_positions);
    sum += geometry.groups[group].page_bytes * (group_pages[group] - fewer).value() *
           request.n_sequences;
  }
  return sum;
}

std::int64_t Plan::objects_per_step() const {
  const std::int64_t page = geometry.page_positions.value();
  const std::int64_t positions = std::min(request.max_step, request.context).value();
  const auto n_groups = static_cast<std::int64_t>(geometry.groups.size());
  // Whole pages of the step and a copy of the open one, each group; a copy of the block.
  return n_groups * ((positions - 1) / page + 2) + 1;
}

Bytes Plan::logical_fixed_bytes() const {
  Bytes sum{0};
  for (const ComponentPlan& component : components) {
    const bool fixed =
        component.discipline == Discipline::kRing || component.discipline == Discipline::kRecurrent;
    if (fixed) sum += component.logical_bytes;
  }
  return sum;
}

const ComponentPlan* Plan::find(LayerIndex layer, ComponentKind kind) const {
  const Placed* placed = geometry.find(layer, kind);
  return placed == nullptr
             ? nullptr
             : &components[static_cast<std::size_t>(placed - geometry.components.data())];
}

Result<Plan> make_plan(const Layout& layout, const PlanRequest& request) {
  KVANT_TRY(validate_request(request));
  try {
    Plan plan{.layout = layout, .request = request, .geometry = {}};
    plan.geometry =
        KVANT_TRY(make_geometry(layout, std::min(request.max_rollback, request.context)));
    KVANT_TRY(count_components(plan));
    KVANT_TRY(check_view_limits(plan.geometry));
    KVANT_TRY(count_pool(plan));
    KVANT_TRY(count_tables(plan));
    return plan;
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory};
  }
}

namespace {

// The largest n in [1, maximum] whose plan fits the budget, given that bytes never fall with n.
// `plan_of(n)` returns a Result<Plan>. Requires: maximum of at least 1.
template <class PlanOf>
Result<std::int64_t> largest_that_fits(std::int64_t maximum, Bytes budget, const PlanOf& plan_of) {
  const Plan least = KVANT_TRY(plan_of(1));
  if (least.total_bytes() > budget) {
    return Error{.code = ErrorCode::kOutOfMemory,
                 .actual = static_cast<std::uint64_t>(least.total_bytes().value()),
                 .expected = static_cast<std::uint64_t>(std::max<std::int64_t>(budget.value(), 0))};
  }
  std::int64_t fits = 1;
  // Does not fit or is beyond the maximum.
  std::int64_t too_large =
      maximum == std::numeric_limits<std::int64_t>::max() ? maximum : maximum + 1;
  while (too_large - fits > 1) {
    const std::int64_t middle = fits + (too_large - fits) / 2;
    const Result<Plan> plan = plan_of(middle);
    if (!plan && plan.error().code == ErrorCode::kOutOfMemory) return plan.error();
    (plan && plan->total_bytes() <= budget ? fits : too_large) = middle;
  }
  return fits;
}

}  // namespace

Result<Tokens> longest_context(const Layout& layout, PlanRequest request, Bytes budget,
                               Tokens maximum) {
  if (maximum.value() < 1) return Error{.code = ErrorCode::kEmptyContext};
  return Tokens(KVANT_TRY(largest_that_fits(maximum.value(), budget, [&](std::int64_t context) {
    request.context = Tokens(context);
    return make_plan(layout, request);
  })));
}

Result<std::int64_t> most_sequences(const Layout& layout, PlanRequest request, Bytes budget,
                                    std::int64_t maximum) {
  if (maximum < 1) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .actual = static_cast<std::uint64_t>(maximum),
                 .expected = 1};
  }
  return largest_that_fits(maximum, budget, [&](std::int64_t n_sequences) {
    request.n_sequences = n_sequences;
    return make_plan(layout, request);
  });
}

}  // namespace kvant::state
