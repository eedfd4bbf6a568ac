// The golden cases of the bundle. golden.cpp, which posenc-export writes, holds them.
#pragma once

#include "compare.hpp"
#include "posenc_model.hpp"

namespace posenc {

/// A tensor of a case. The golden files have a large one at some indices of `axis`, and all of any other (-1).
struct Tensor {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  int axis = -1;
};

/// A call: what goes in, what must come out and how exactly; or what must be refused.
struct Case {
  std::string name;
  Model::Axes axes;
  bool refused;
  bool refused_on_cuda;  // a look-up there cannot report that a position is out of range
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  Tolerance tolerances[2][2];  // by ONNX Runtime and by libtorch, each on the CPU and on CUDA
};

std::vector<Case> cases();
/// Call the model with tensors in the order of a case.
void call(const Model& model, const Model::Axes& axes, std::span<const View> inputs, std::span<const View> outputs,
          Memory memory);

}  // namespace posenc
