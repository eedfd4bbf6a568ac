#include "contract.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace posenc {
inline namespace POSENC_VERSION {
namespace {

using What = Fault::What;

Fault fault(What what, std::size_t at = 0) noexcept { return {what, false, 0, at}; }

/// Whether there is a tensor of a shape, of which `elements` were counted.
bool possible(Span<const std::int64_t> shape, std::size_t elements) noexcept {
  if (elements != 0) return true;
  const bool negative = std::any_of(shape.begin(), shape.end(), [](std::int64_t size) { return size < 0; });
  return !negative && std::find(shape.begin(), shape.end(), 0) != shape.end();
}

std::uintptr_t address(const View& view) noexcept { return reinterpret_cast<std::uintptr_t>(view.data); }
std::size_t bytes(const View& view) noexcept { return view.size * size_of(view.dtype); }

bool overlap(const View& one, const View& other) noexcept {
  const auto is_there = [](const View& view) { return view.data != nullptr && bytes(view) != 0; };
  return is_there(one) && is_there(other) && address(one) < address(other) + bytes(other) &&
         address(other) < address(one) + bytes(one);
}

bool same_place(const View& one, const View& other) noexcept {
  return one.data == other.data && bytes(one) == bytes(other);
}

}  // namespace

/// The size of each dynamic axis in a call, -1 where it has not been seen yet.
struct Contract::Sizes {
  explicit Sizes(std::size_t axes) noexcept { std::fill_n(size.begin(), axes, -1); }
  std::array<std::int64_t, most_axes> size;
};

Status Contract::set(std::vector<Port> inputs, std::vector<Port> outputs) {
  inputs_ = std::move(inputs);
  outputs_ = std::move(outputs);
  for (const auto& port : inputs_) input_plans_.push_back(plan_of(port));
  for (const auto& port : outputs_) output_plans_.push_back(plan_of(port));
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const auto& limit = inputs_[i].limit;
    if (has_limit(inputs_[i]) && !inputs_[i].unread) limits_.push_back({i, find_axis(limit.follows), find_axis(limit.among)});
  }
  if (axes_.size() <= most_axes) return {};
  return {ErrorKind::bad_argument, "a graph may have " + std::to_string(most_axes) + " dynamic axes, got " +
                                       std::to_string(axes_.size())};
}

std::size_t Contract::axis_of(const std::string& name) {
  const auto found = std::find(axes_.begin(), axes_.end(), name);
  const auto index = static_cast<std::size_t>(found - axes_.begin());
  if (found == axes_.end()) axes_.push_back(name);
  return index;
}

Contract::Plan Contract::plan_of(const Port& port) {
  Plan plan;
  plan.dtype = port.dtype;
  plan.unread = port.unread;
  for (const auto& axis : port.axes) {
    const auto most = axis.most == 0 ? std::numeric_limits<std::int64_t>::max() : axis.most;
    plan.axes.push_back({axis.name.empty() ? none : axis_of(axis.name), axis.size, most});
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (!port.may_replace.empty() && inputs_[i].name == port.may_replace) plan.may_replace = i;
  }
  return plan;
}

Fault Contract::find(Span<const View> inputs, Span<const View> outputs, bool with_outputs,
                     bool readable) const noexcept {
  Sizes sizes(axes_.size());
  auto found = find_in_ports(input_plans_, inputs, {}, sizes);
  if (found.what == What::none && with_outputs) {
    found = find_in_ports(output_plans_, outputs, inputs, sizes);
    found.of_output = true;
    if (found.what == What::none) found = find_overlap(inputs, outputs);
  }
  return found.what == What::none && readable ? find_limit(inputs) : found;
}

/// Whether an output lies exactly where an input does that it may replace, and has its shape: what was cached and what is
/// cached afterwards may share a buffer that has room for more, so that no axis of it says how many tokens there are.
bool Contract::is_in_place(const Plan& plan, const View& view, Span<const View> replaced) noexcept {
  if (plan.may_replace == none || plan.may_replace >= replaced.size()) return false;
  const auto& input = replaced[plan.may_replace];
  return view.dtype == input.dtype && same_place(view, input) && view.shape.size() == input.shape.size() &&
         std::equal(view.shape.begin(), view.shape.end(), input.shape.begin());
}

Fault Contract::find_in_ports(const std::vector<Plan>& plans, Span<const View> views, Span<const View> replaced,
                              Sizes& sizes) noexcept {
  if (plans.size() != views.size()) return fault(What::ports);
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (is_in_place(plans[i], views[i], replaced)) continue;
    auto found = find_in_port(plans[i], views[i], sizes);
    found.port = i;
    if (found.what != What::none) return found;
  }
  return {};
}

Fault Contract::find_in_port(const Plan& plan, const View& view, Sizes& sizes) noexcept {
  if (view.dtype != plan.dtype) return fault(What::dtype);
  if (view.shape.size() != plan.axes.size()) return fault(What::rank);
  for (std::size_t i = 0; i < plan.axes.size(); ++i) {
    const auto& axis = plan.axes[i];
    const auto size = view.shape[i];
    if (axis.id == none && size != axis.fixed) return fault(What::size, i);
    if (axis.id == none) continue;
    auto& seen = sizes.size[axis.id];
    if (size > axis.most) return fault(What::most, i);
    if (seen < 0) seen = size;
    if (seen != size) return fault(What::clash, i);
  }
  const auto elements = count(view.shape);
  if (!possible(view.shape, elements)) return fault(What::impossible);
  if (plan.unread && view.data == nullptr) return {};
  if (elements != view.size) return fault(What::elements);
  return fault(elements != 0 && view.data == nullptr ? What::null : What::none);
}

Contract::Place Contract::find_axis(const std::string& name) const {
  for (std::size_t i = 0; !name.empty() && i < inputs_.size(); ++i) {
    for (std::size_t axis = 0; axis < inputs_[i].axes.size(); ++axis) {
      if (inputs_[i].axes[axis].name == name) return {i, axis};
    }
  }
  return {};
}

Counts Contract::counts(const Limited& limited, Span<const View> inputs) noexcept {
  const auto size = [=](const Place& place, std::int64_t otherwise) {
    return place.input == none ? otherwise : inputs[place.input].shape[place.axis];
  };
  return {size(limited.counted, 1), size(limited.keys, -1)};
}

Fault Contract::find_limit(Span<const View> inputs) const noexcept {
  for (std::size_t i = 0; i < limits_.size(); ++i) {
    const auto input = limits_[i].input;
    if (!keeps_limit(inputs_[input], inputs[input], counts(limits_[i], inputs))) return {What::limit, false, input, i};
  }
  return {};
}

Fault Contract::find_overlap(Span<const View> inputs, Span<const View> outputs) const noexcept {
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool in_place = output_plans_[o].may_replace == i && same_place(outputs[o], inputs[i]);
      if (!in_place && overlap(outputs[o], inputs[i])) return {What::input, true, o, i};
    }
    for (std::size_t p = 0; p < o; ++p) {
      if (overlap(outputs[o], outputs[p])) return {What::output, true, o, p};
    }
  }
  return {};
}

}  // namespace POSENC_VERSION
}  // namespace posenc
