#include "package.hpp"

#include <ATen/cpu/Utils.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>
#include <vector>

namespace posenc {
inline namespace POSENC_VERSION {
namespace {

/// What libtorch calls the instructions of a CPU, of a name that packages have for a set of them: else the same name.
std::vector<std::string> needs(const std::string& isa) {
  if (isa == "avx512") return {"avx512_f", "avx512_bw", "avx512_cd", "avx512_dq", "avx512_vl"};
  if (isa == "avx2") return {"avx2", "fma3", "f16c", "bmi", "bmi2", "lzcnt"};
  if (isa == "asimd") return {"neon"};
  if (isa == "invalid_vec_isa" || isa == "zvector" || isa == "vsx") return {};
  return {isa};
}

bool cpu_has(const std::string& isa) {
  static const auto capabilities = at::cpu::get_cpu_capabilities();
  const auto wanted = needs(isa);
  return std::all_of(wanted.begin(), wanted.end(), [](const std::string& name) {
    const auto found = capabilities.find(name);
    return found != capabilities.end() && found->second.isBool() && found->second.toBool();
  });
}

std::string fact(const PackageFacts& facts, const char* name) {
  const auto found = facts.find(name);
  return found == facts.end() ? "" : found->second;
}

/// Why this CPU cannot run what is compiled for instruction sets, and what to do; or nothing.
std::string cpu_problem(const std::string& file, std::string isas) {
  std::transform(isas.begin(), isas.end(), isas.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::istringstream words(isas);
  std::string lacking, needed;
  for (std::string isa; words >> isa;) {
    if (lacking.empty() && !cpu_has(isa)) lacking = isa;
    needed += (needed.empty() ? "" : " and ") + isa;
  }
  if (lacking.empty()) return "";
  const std::string best = cpu_has("avx512") ? "avx512" : cpu_has("avx2") ? "avx2" : "default";
  return file + " is compiled for " + needed + ", this CPU has " + (best == "default" ? "" : best + " and ") + "no " + lacking +
         ": export it with --cpu-isa " + best + ", or on this machine";
}

}  // namespace

PackageFacts facts_of_package(const std::filesystem::path& file) {
  return torch::inductor::AOTIModelPackageLoader::load_metadata_from_package(file.string(), "model");
}

bool is_package(const Bytes& graph) {
  const std::string_view text(static_cast<const char*>(static_cast<const void*>(graph.data())), graph.size());
  return text.find("/data/aotinductor/") != std::string_view::npos;
}

void expect_made_for(Device device, const std::filesystem::path& file, const PackageFacts& facts) {
  const auto name = file.filename().string();
  if (device == Device::cuda && fact(facts, "AOTI_DEVICE_KEY") != "cuda") {
    throw Error(name + " was compiled for the CPU: it cannot run on CUDA", ErrorKind::device);
  }
  const auto problem = cpu_problem(name, fact(facts, "AOTI_CPU_ISA"));
  if (!problem.empty()) throw Error(problem, ErrorKind::device);
}

}  // namespace POSENC_VERSION
}  // namespace posenc
