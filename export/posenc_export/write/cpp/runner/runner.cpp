// Runs the graph of a bundle on inputs in .npy files, and writes its outputs as .npy files. Knows no scheme.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "npy.hpp"

namespace {

using posenc::Error;
namespace fs = std::filesystem;

constexpr const char* usage =
    R"(usage: RUNNER BUNDLE [IN OUT] [--format NAME] [--device cpu|cuda]
       RUNNER --version

Runs the graph of BUNDLE, a folder made by posenc-export, once for each pair of folders: inputs are IN/NAME.npy,
outputs become OUT/NAME.npy. Without IN and OUT, pairs are read from standard input, a line each, with a tab between
them, and each is answered by a line: "ok", or "error: " and what went wrong.
--format names the artifact to run where a bundle has several that this can run.)";

struct Arguments {
  fs::path bundle;
  std::optional<std::pair<fs::path, fs::path>> folders;
  std::optional<std::string> format;
  posenc::Device device = posenc::Device::cpu;
};

Arguments parsed(const std::vector<std::string>& words) {
  Arguments arguments;
  std::vector<std::string> places;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto value = [&] {
      if (i + 1 == words.size()) throw Error(words[i] + " needs a value");
      return words[++i];
    };
    if (words[i] == "--format") {
      arguments.format = value();
    } else if (words[i] == "--device") {
      const auto device = value();
      if (device != "cpu" && device != "cuda") throw Error("--device is '" + device + "': expected cpu or cuda");
      arguments.device = device == "cuda" ? posenc::Device::cuda : posenc::Device::cpu;
    } else if (words[i].compare(0, 2, "--") == 0) {
      throw Error("unknown option " + words[i]);
    } else {
      places.push_back(words[i]);
    }
  }
  if (places.size() != 1 && places.size() != 3) throw Error("expected BUNDLE, or BUNDLE IN OUT");
  arguments.bundle = places[0];
  if (places.size() == 3) arguments.folders.emplace(places[1], places[2]);
  return arguments;
}

posenc::DType dtype_of(const std::string& name) {
  auto dtype = posenc::DType::float32;
  if (!posenc::find_dtype(name, dtype)) throw Error("unknown dtype '" + name + "'");
  return dtype;
}

std::vector<posenc::Port> ports_of(const nlohmann::json& entries) {
  std::vector<posenc::Port> ports;
  for (const auto& entry : entries) {
    posenc::Port port{entry.at("name"), dtype_of(entry.at("dtype").get<std::string>()), {}};
    for (const auto& axis : entry.at("axes")) {
      port.axes.push_back(axis.at("size").is_null() ? posenc::Axis{axis.at("name")} : posenc::Axis{"", axis.at("size")});
    }
    ports.push_back(std::move(port));
  }
  return ports;
}

#ifdef POSENC_BACKEND_ONNX
const std::vector<std::string> readable{"onnx"};
#else
const std::vector<std::string> readable{"torchscript", "aoti"};
#endif

fs::path above(const fs::path& bundle) { return fs::absolute(bundle / ".").parent_path().parent_path(); }

/// Whether a folder is a part of the bundle above it, a model of several graphs: its graph lies there.
bool is_part(const fs::path& bundle) {
  std::ifstream stream(above(bundle) / "manifest.json");
  const auto whole = nlohmann::json::parse(stream, nullptr, false);
  if (!whole.is_object()) return false;
  const auto parts = whole.value("parts", nlohmann::json::array());
  const auto name = fs::absolute(bundle / ".").parent_path().filename().string();
  return std::find(parts.begin(), parts.end(), name) != parts.end();
}

fs::path artifact_of(const nlohmann::json& manifest, const Arguments& arguments) {
  for (const auto& format : readable) {
    if (arguments.format && *arguments.format != format) continue;
    for (const auto& artifact : manifest.at("artifacts")) {
      if (artifact.at("format") != format) continue;
      const fs::path file = artifact.at("file").get<std::string>();
      if (file.has_parent_path()) throw Error("the manifest names " + file.string() + ", which is not a file of the bundle");
      return (is_part(arguments.bundle) ? above(arguments.bundle) : arguments.bundle) / file;
    }
  }
  throw Error(arguments.bundle.string() + " holds nothing that this runs: expected " +
              (arguments.format ? *arguments.format : readable.front()));
}

posenc::Session opened(const Arguments& arguments) {
  const auto path = arguments.bundle / "manifest.json";
  std::ifstream stream(path);
  if (!stream) throw Error(arguments.bundle.string() + " is not a bundle: it has no manifest.json");
  try {
    const auto manifest = nlohmann::json::parse(stream);
    return {artifact_of(manifest, arguments), ports_of(manifest.at("inputs")), ports_of(manifest.at("outputs")),
            arguments.device};
  } catch (const nlohmann::json::exception& error) {
    throw Error(path.string() + " is damaged: " + posenc::one_line(error.what()));
  }
}

void run(const posenc::Session& session, const fs::path& in, const fs::path& out) {
  std::vector<posenc::Array> fed;
  for (const auto& port : session.inputs()) fed.push_back(runner::read_npy(in, port));
  std::vector<posenc::View> views;
  for (auto& array : fed) views.push_back(posenc::view(array));
  const auto produced = session.run(views);
  for (std::size_t i = 0; i < produced.size(); ++i) runner::write_npy(out, session.outputs()[i].name, produced[i]);
}

/// Answer lines of standard input until it ends; what goes wrong in one of them is its answer.
void serve(const posenc::Session& session) {
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    try {
      const auto tab = line.find('\t');
      if (tab == std::string::npos) throw Error("expected two folders with a tab between them, got '" + line + "'");
      run(session, line.substr(0, tab), line.substr(tab + 1));
      std::cout << "ok" << std::endl;
    } catch (const std::exception& error) {
      std::cout << "error: " << posenc::one_line(error.what()) << std::endl;
    }
  }
}

int main_guarded(const std::vector<std::string>& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    std::cout << usage << '\n';
    return words.empty() ? 2 : 0;
  }
  if (const auto reason = posenc::Session::unusable(); !reason.empty()) throw std::runtime_error(reason);
  if (words[0] == "--version") {
    const auto no_cuda = posenc::Session::no_cuda();
    std::cout << posenc::Session::versions() << "\nCUDA: " << (no_cuda.empty() ? "yes" : no_cuda) << '\n';
    return 0;
  }
  const auto arguments = parsed(words);
  const auto session = opened(arguments);
  if (arguments.folders) {
    run(session, arguments.folders->first, arguments.folders->second);
  } else {
    serve(session);
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    return main_guarded({words + 1, words + count});
  } catch (const std::exception& error) {
    std::cerr << "error: " << posenc::one_line(error.what()) << '\n';
  } catch (...) {
    std::cerr << "error: unknown\n";
  }
  return 1;
}
