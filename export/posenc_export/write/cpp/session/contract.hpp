// What a graph takes and gives, and what of a call does not keep to it. Private to the session.
#pragma once

#include <string>
#include <vector>

#include "limits.hpp"
#include "posenc/session.hpp"

namespace posenc {
inline namespace POSENC_VERSION {

/// What running a session is answered that holds no graph.
Status no_graph();

/// What is wrong with a call, and where: what is found in each call is apart from the words for it, which few need.
struct Fault {
  enum class What { none, ports, dtype, rank, size, most, clash, impossible, elements, null, limit, input, output };
  What what = What::none;
  bool of_output = false;
  std::size_t port = 0;
  std::size_t at = 0;  ///< the axis; of an overlap, the other port; of a limit, which one
};

/// The ports of a graph, with what a check of a call needs found out beforehand: checking allocates nothing.
class Contract {
 public:
  /// Take ports; refuse more dynamic axes than a check has room for.
  Status set(std::vector<Port> inputs, std::vector<Port> outputs);

  /// What is wrong with a call. `readable`: positions lie where the host can read them.
  Status check(Span<const View> inputs, Span<const View> outputs, bool readable) const {
    const auto fault = find(inputs, outputs, true, readable);
    return fault.what == Fault::What::none ? Status() : explain(fault, inputs, outputs);
  }
  /// What is wrong with the positions of a call whose tensors have been checked: with a call as the one before.
  Status check_limits(Span<const View> inputs) const {
    const auto fault = find_limit(inputs);
    return fault.what == Fault::What::none ? Status() : explain(fault, inputs, {});
  }
  /// What is wrong with its inputs alone, which the host can read.
  Status check(Span<const View> inputs) const {
    const auto fault = find(inputs, {}, false, true);
    return fault.what == Fault::What::none ? Status() : explain(fault, inputs, {});
  }

  const std::vector<Port>& inputs() const noexcept { return inputs_; }
  const std::vector<Port>& outputs() const noexcept { return outputs_; }

 private:
  static constexpr std::size_t most_axes = 256;
  static constexpr std::size_t none = ~std::size_t{0};

  /// An axis of a port: which of the dynamic ones it is, or its fixed size.
  struct Size {
    std::size_t id = none;
    std::int64_t fixed = 0;
    std::int64_t most = 0;
  };
  /// A port as checks need it.
  struct Plan {
    DType dtype;
    std::vector<Size> axes;
    std::size_t may_replace = none;
    bool unread = false;
  };
  /// An axis of an input.
  struct Place {
    std::size_t input = none;
    std::size_t axis = 0;
  };
  /// An input that has a limit; the axes that are as long as positions count from each of its integers, and as keys are.
  struct Limited {
    std::size_t input = 0;
    Place counted;
    Place keys;
  };
  struct Sizes;

  std::size_t axis_of(const std::string& name);
  Plan plan_of(const Port& port);
  Place find_axis(const std::string& name) const;
  static Counts counts(const Limited& limited, Span<const View> inputs) noexcept;
  Fault find(Span<const View> inputs, Span<const View> outputs, bool with_outputs, bool readable) const noexcept;
  static Fault find_in_ports(const std::vector<Plan>& plans, Span<const View> views, Span<const View> replaced,
                             Sizes& sizes) noexcept;
  static bool is_in_place(const Plan& plan, const View& view, Span<const View> replaced) noexcept;
  static Fault find_in_port(const Plan& plan, const View& view, Sizes& sizes) noexcept;
  Fault find_limit(Span<const View> inputs) const noexcept;
  Fault find_overlap(Span<const View> inputs, Span<const View> outputs) const noexcept;

  Status explain(const Fault& fault, Span<const View> inputs, Span<const View> outputs) const;
  Status explain_clash(const Fault& fault, Span<const View> inputs, Span<const View> outputs) const;
  Status explain_overlap(const Fault& fault) const;

  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
  std::vector<std::string> axes_;
  std::vector<Plan> input_plans_;
  std::vector<Plan> output_plans_;
  std::vector<Limited> limits_;
};

}  // namespace POSENC_VERSION
}  // namespace posenc
