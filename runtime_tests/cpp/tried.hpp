// How many failures were tried, and how many left a wrong state.
#pragma once

#include <iostream>
#include <string>

struct Tried {
  int count = 0;
  int wrong = 0;

  void note(bool right, const std::string& what) {
    ++count;
    if (right) return;
    ++wrong;
    std::cout << "wrong: " << what << '\n';
  }
};

inline void print(const char* what, const Tried& tried) { std::cout << what << ": " << tried.count << ", " << tried.wrong << " wrong" << std::endl; }
