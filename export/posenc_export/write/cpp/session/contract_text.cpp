// The words for what is wrong with a call.
#include "contract.hpp"

namespace posenc {
inline namespace POSENC_VERSION {
namespace {

Status refused(std::string text) { return {ErrorKind::bad_argument, std::move(text)}; }

}  // namespace

Status no_graph() { return refused("this session holds no graph: none was loaded, or it was moved from"); }

Status Contract::explain(const Fault& fault, Span<const View> inputs, Span<const View> outputs) const {
  using What = Fault::What;
  const auto views = fault.of_output ? outputs : inputs;
  const auto& ports = fault.of_output ? outputs_ : inputs_;
  const std::string kind = fault.of_output ? "output" : "input";
  if (fault.what == What::ports) {
    return refused("got " + std::to_string(views.size()) + " " + kind + "s, expected " + std::to_string(ports.size()));
  }
  const auto& port = ports[fault.port];
  const auto& view = views[fault.port];
  const auto shape = describe(view.shape);
  switch (fault.what) {
    case What::dtype:
      return refused(kind + " '" + port.name + "' is " + std::string(name_of(view.dtype)) + ": expected " + describe(port));
    case What::rank:
    case What::size: return refused(kind + " '" + port.name + "' has shape " + shape + ": expected " + describe(port));
    case What::most:
      return {ErrorKind::out_of_range, "axis '" + port.axes[fault.at].name + "' is " +
                                           std::to_string(view.shape[fault.at]) + ", out of range: expected at most " +
                                           std::to_string(port.axes[fault.at].most)};
    case What::clash: return explain_clash(fault, inputs, outputs);
    case What::impossible:
      return refused("there is no tensor of shape " + shape + ": a size is negative, or they are too many");
    case What::elements:
      return refused("'" + port.name + "' has " + std::to_string(view.size) + " elements, expected those of shape " + shape);
    case What::null: return refused("'" + port.name + "' is a null pointer, expected the elements of shape " + shape);
    case What::limit: return explain_limit(port, view, counts(limits_[fault.at], inputs));
    case What::input:
    case What::output: return explain_overlap(fault);
    case What::ports:
    case What::none: break;
  }
  return {};
}

Status Contract::explain_clash(const Fault& fault, Span<const View> inputs, Span<const View> outputs) const {
  const auto& port = fault.of_output ? outputs_[fault.port] : inputs_[fault.port];
  const auto size = (fault.of_output ? outputs : inputs)[fault.port].shape[fault.at];
  const auto& name = port.axes[fault.at].name;
  for (std::size_t i = 0; i < inputs_.size() + outputs_.size(); ++i) {
    const bool of_output = i >= inputs_.size();
    const auto& other = of_output ? outputs_[i - inputs_.size()] : inputs_[i];
    for (std::size_t axis = 0; axis < other.axes.size(); ++axis) {
      if (other.axes[axis].name != name) continue;
      const auto first = (of_output ? outputs[i - inputs_.size()] : inputs[i]).shape[axis];
      return refused("axis '" + name + "' is " + std::to_string(first) + " in '" + other.name + "' and " +
                     std::to_string(size) + " in '" + port.name + "': expected one size");
    }
  }
  return {};
}

Status Contract::explain_overlap(const Fault& fault) const {
  const auto& port = outputs_[fault.port];
  const auto& other = fault.what == Fault::What::input ? inputs_[fault.at] : outputs_[fault.at];
  return refused("output '" + port.name + "' overlaps '" + other.name + "': give it memory of its own" +
                 (port.may_replace.empty() ? "" : ", or all of '" + port.may_replace + "'"));
}

}  // namespace POSENC_VERSION
}  // namespace posenc
