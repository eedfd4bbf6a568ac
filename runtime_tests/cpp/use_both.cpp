// A program with two bundles: use_both OFFSET HALF OUT writes what each gives, its bytes one after the other.
#include <cstdio>
#include <exception>
#include <vector>

std::vector<unsigned char> use_offset(const char* file);
std::vector<unsigned char> use_half(const char* file);

int main(int, char** words) {
  try {
    std::FILE* out = std::fopen(words[3], "wb");
    for (const auto& bytes : {use_offset(words[1]), use_half(words[2])}) {
      std::fwrite(bytes.data(), 1, bytes.size(), out);
    }
    return std::fclose(out);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
