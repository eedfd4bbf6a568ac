// Rows of two headers, in a file that has the classes of two bundles too.
#include <cstring>

#include "half.hpp"
#include "offset.hpp"
#include "vision/model.hpp"
#include "text/model.hpp"

std::vector<unsigned char> use_headers();

std::vector<unsigned char> use_headers() {
  float rows[2][4];
  if (!text::row(77, rows[0]) || !vision::row(77, rows[1])) return {};
  std::vector<unsigned char> bytes(sizeof rows);
  std::memcpy(bytes.data(), rows, bytes.size());
  return bytes;
}
