// Which agents read which chunk of one key from which other agent now, as the key's directory sent
// them. Pure: not thread-safe, no clock of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"

namespace hearth {

class ActiveReads {
 public:
  using TimePoint = Clock::time_point;
  // An agent that has reported nothing for so long does not read any more.
  static constexpr std::chrono::seconds kTimeout{30};

  void begin(std::uint32_t chunk, const std::string& reader, const std::string& holder,
             TimePoint now);
  void end(std::uint32_t chunk, const std::string& reader);
  // It left, or no longer wants the key.
  void forget(const std::string& reader);

  [[nodiscard]] std::size_t readersOf(std::uint32_t chunk, const std::string& holder) const;
  // The agent that reads the chunk, other than the asker: of several the one named least; empty:
  // none.
  [[nodiscard]] std::string nameReader(std::uint32_t chunk, const std::string& asker,
                                       TimePoint now);
  // Since when; the epoch when it does not.
  [[nodiscard]] TimePoint since(std::uint32_t chunk, const std::string& reader) const;

 private:
  struct Read {
    std::string reader;
    std::string holder;
    TimePoint since;
    std::uint32_t named = 0;
  };
  std::map<std::uint32_t, std::vector<Read>> reads_;  // by chunk; none is empty
};

}  // namespace hearth
