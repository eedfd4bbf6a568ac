// Memory that runs out when it is told to.
#pragma once

#include <cstddef>

/// Which allocation of a thread fails from now on, counted from 1; 0: none. `lasting`: those behind it fail as well.
struct Failing {
  std::size_t at = 0;
  bool lasting = false;
  std::size_t asked = 0;
  bool failed = false;

  bool next() {
    if (at == 0) return false;
    ++asked;
    const bool fails = lasting ? asked >= at : asked == at;
    failed = failed || fails;
    return fails;
  }
};
extern thread_local Failing failing;
