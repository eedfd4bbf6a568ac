// A program with two bundles and two headers, the headers in two files of it: use_all OFFSET HALF OUT writes what each
// gives, its bytes one after the other, those of the headers twice.
#include <cstdio>
#include <exception>
#include <vector>

#include "offset.hpp"
#include "text/model.hpp"
#include "vision/model.hpp"

std::vector<unsigned char> use_offset(const char* file);
std::vector<unsigned char> use_half(const char* file);
std::vector<unsigned char> use_headers();

int main(int, char** words) {
  try {
    float rows[2][4];
    if (!text::row(77, rows[0]) || !vision::row(77, rows[1])) return 1;
    std::FILE* out = std::fopen(words[3], "wb");
    for (const auto& bytes : {use_offset(words[1]), use_half(words[2]), use_headers()}) {
      std::fwrite(bytes.data(), 1, bytes.size(), out);
    }
    std::fwrite(rows, 1, sizeof rows, out);
    return std::fclose(out);
  } catch (const posenc::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
