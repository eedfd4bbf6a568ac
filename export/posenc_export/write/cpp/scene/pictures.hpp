// What an example gives a model that sees: a picture out of a PPM file, of one size and with numbers as a processor makes
// them, or arrays that the processor itself made, out of .npy files. To copy and to change.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "posenc/session.hpp"

namespace pictures {

/// A picture: (height, width, 3), red, green and blue.
struct Pixels {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<unsigned char> values;
};

/// What a processor does with a picture: its size, the part in the middle that it keeps, and its numbers.
struct Processor {
  std::int64_t height, width;       ///< the size that it is given; 0: `shortest` says it
  std::int64_t shortest;            ///< the length of its shorter side, where the sides keep their ratio
  std::int64_t kept_height, kept_width;
  bool is_cubic;                    ///< what makes new pixels of old ones: bicubic, or bilinear
  double factor;                    ///< what numbers are multiplied by
  std::array<double, 3> mean, std;  ///< of each colour: numbers less `mean`, by `std`
};

/// Read the next number of a PPM file's head, behind spaces and comments.
inline std::int64_t number_of(std::istream& stream) {
  while (std::isspace(stream.peek()) != 0 || stream.peek() == '#') {
    std::string comment;
    if (stream.get() == '#') std::getline(stream, comment);
  }
  std::int64_t number = -1;
  stream >> number;
  return number;
}

/// Read a PPM file, P6, with a byte for each colour.
inline Pixels read_ppm(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string kind(2, ' ');
  stream.read(kind.data(), 2);
  Pixels read;
  read.width = number_of(stream);
  read.height = number_of(stream);
  const auto most = number_of(stream);
  stream.get();  // one space
  if (!stream || kind != "P6" || most != 255 || read.width < 1 || read.height < 1 || read.width > 65536 || read.height > 65536) {
    throw posenc::Error(file.string() + " is no picture: expected a PPM file, P6, of bytes");
  }
  read.values.resize(static_cast<std::size_t>(read.height * read.width * 3));
  if (!stream.read(reinterpret_cast<char*>(read.values.data()), static_cast<std::streamsize>(read.values.size()))) {
    throw posenc::Error(file.string() + " is shorter than its own head says");
  }
  return read;
}

/// How much of each old pixel goes into a new one: from `first` on, in 2^22 parts.
struct Weights {
  std::int64_t first;
  std::vector<std::int64_t> parts;
};

inline double weight_at(double at, bool is_cubic) {
  at = std::abs(at);
  if (!is_cubic) return at < 1 ? 1 - at : 0;
  if (at < 1) return (1.5 * at - 2.5) * at * at + 1;
  return at < 2 ? ((-0.5 * at + 2.5) * at - 4) * at + 2 : 0;
}

/// The weights of a line that gets another length, as Pillow has them: a shorter one is smoothed first.
inline std::vector<Weights> weights_of(std::int64_t from, std::int64_t to, bool is_cubic) {
  const auto scale = static_cast<double>(from) / static_cast<double>(to), smooth = std::max(scale, 1.0);
  const auto reach = (is_cubic ? 2.0 : 1.0) * smooth;
  std::vector<Weights> all;
  for (std::int64_t i = 0; i < to; ++i) {
    const auto center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(center - reach + 0.5), 0);
    const auto end = std::min(static_cast<std::int64_t>(center + reach + 0.5), from);
    std::vector<double> weights;
    double sum = 0;
    for (auto at = first; at < end; ++at) {
      weights.push_back(weight_at((static_cast<double>(at) - center + 0.5) / smooth, is_cubic));
      sum += weights.back();
    }
    Weights one{first, {}};
    for (const auto weight : weights) one.parts.push_back(std::llround(weight / sum * (1 << 22)));
    all.push_back(one);
  }
  return all;
}

/// Give lines another length: `outer` of them, each of `from` rows of `inner` bytes.
inline std::vector<unsigned char> resized(const std::vector<unsigned char>& old, std::int64_t outer, std::int64_t from,
                                          std::int64_t to, std::int64_t inner, bool is_cubic) {
  if (from == to) return old;
  const auto weights = weights_of(from, to, is_cubic);
  std::vector<unsigned char> made;
  made.reserve(static_cast<std::size_t>(outer * to * inner));
  for (std::int64_t line = 0; line < outer; ++line) {
    for (const auto& one : weights) {
      for (std::int64_t i = 0; i < inner; ++i) {
        std::int64_t sum = 1 << 21;
        for (std::size_t part = 0; part < one.parts.size(); ++part) {
          const auto at = (line * from + one.first + static_cast<std::int64_t>(part)) * inner + i;
          sum += one.parts[part] * old[static_cast<std::size_t>(at)];
        }
        made.push_back(static_cast<unsigned char>(std::clamp<std::int64_t>(sum >> 22, 0, 255)));
      }
    }
  }
  return made;
}

/// Give a picture another size, as Pillow 13 does, with which the order of the two steps follows from how much is lost: each
/// of them rounds to bytes, and older ones begin with the width.
inline std::vector<unsigned char> of_size(const Pixels& old, std::int64_t height, std::int64_t width, bool is_cubic) {
  const auto rows = old.height - height, columns = old.width - width;
  if (rows > 0 && rows > 2 * columns) {
    const auto lower = resized(old.values, 1, old.height, height, old.width * 3, is_cubic);
    return resized(lower, height, old.width, width, 3, is_cubic);
  }
  const auto narrower = resized(old.values, old.height, old.width, width, 3, is_cubic);
  return resized(narrower, 1, old.height, height, width * 3, is_cubic);
}

/// Make (3, height, width) of a picture, as a processor does that gives each picture one size.
inline std::vector<float> processed(const Pixels& picture, const Processor& how) {
  const auto shorter = std::min(picture.height, picture.width);
  const auto side = [&](std::int64_t given, std::int64_t old) { return how.shortest == 0 ? given : how.shortest * old / shorter; };
  const auto height = side(how.height, picture.height), width = side(how.width, picture.width);
  const auto bytes = of_size(picture, height, width, how.is_cubic);
  const auto top = (height - how.kept_height) / 2, left = (width - how.kept_width) / 2;
  std::vector<float> numbers;
  for (std::size_t color = 0; color < 3; ++color) {
    for (auto row = top; row < top + how.kept_height; ++row) {
      for (auto column = left; column < left + how.kept_width; ++column) {
        const auto byte = bytes[static_cast<std::size_t>((row * width + column) * 3) + color];
        numbers.push_back(static_cast<float>((byte * how.factor - how.mean[color]) / how.std[color]));
      }
    }
  }
  return numbers;
}

/// Read PORT.npy of a folder, in the dtype of a port; bfloat16, which NumPy has not, lies there as its bits in uint16.
inline posenc::Array read_npy(const std::filesystem::path& folder, const posenc::Port& port) {
  const auto file = folder / (port.name + ".npy");
  constexpr const char* letters[] = {"<f4", "<f2", "<u2", "<f8", "<i8", "<i4", "|b1"};
  const auto expected = posenc::describe(port) + " in " + file.string();
  std::ifstream stream(file, std::ios::binary);
  std::string head(10, ' ');
  if (!stream.read(head.data(), 10) || head.compare(0, 7, "\x93NUMPY\x01") != 0) {
    throw posenc::Error("there is no array of version 1: expected " + expected);
  }
  head.resize(static_cast<unsigned char>(head[8]) + 256U * static_cast<unsigned char>(head[9]));
  stream.read(head.data(), static_cast<std::streamsize>(head.size()));
  const auto shape = head.find("'shape': (");
  const bool fits = head.find(std::string("'") + letters[static_cast<std::size_t>(port.dtype)] + "'") != std::string::npos;
  if (!stream || !fits || shape == std::string::npos || head.find("'fortran_order': False") == std::string::npos) {
    throw posenc::Error("the array is of another dtype, or not row by row: expected " + expected);
  }
  posenc::Array array{port.dtype, {}, {}};
  for (const char* at = head.c_str() + shape + 10; *at >= '0' && *at <= '9';) {
    char* end = nullptr;
    array.shape.push_back(std::strtoll(at, &end, 10));
    at = end + std::strspn(end, ", ");
  }
  array.data.resize(posenc::count(array.shape) * posenc::size_of(port.dtype));
  if (!stream.read(reinterpret_cast<char*>(array.data.data()), static_cast<std::streamsize>(array.data.size()))) {
    throw posenc::Error(file.string() + " is shorter than its own head says");
  }
  return array;
}

}  // namespace pictures
