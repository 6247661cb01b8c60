// Bounds the connections that have not yet proved who they are: in all, and from one address, so
// that one host cannot keep the others out. On one thread.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

namespace hearth {

class Doorkeeper {
 public:
  Doorkeeper(std::size_t places, std::size_t placesPerHost)
      : places_(places), placesPerHost_(placesPerHost) {}

  // A place among the strangers, given back when the pointer goes (before the doorkeeper); null
  // when there is none.
  [[nodiscard]] std::shared_ptr<const void> enter(const std::string& host) {
    if (taken_ >= places_) return nullptr;
    std::size_t& ofHost = perHost_[host];
    if (ofHost >= placesPerHost_) return nullptr;
    ++taken_;
    ++ofHost;
    return std::shared_ptr<const void>(this, [this, host](const void*) {
      --taken_;
      const auto found = perHost_.find(host);
      if (--found->second == 0) perHost_.erase(found);
    });
  }
  [[nodiscard]] std::size_t taken() const { return taken_; }

 private:
  std::size_t places_, placesPerHost_;
  std::size_t taken_ = 0;
  std::map<std::string, std::size_t> perHost_;
};

}  // namespace hearth
