// Limits the units of a resource that all clients, the clients of one namespace and those of one
// pod have at a time. Counts by the identity that a client's token proves, so a client that
// connects under many names has one share. On one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "wire/capability.h"

namespace hearth {

struct ClientLimits {
  std::uint64_t all = 0, ofNamespace = 0, ofPod = 0;

  // A namespace has at most three quarters and a pod half of it, so that there is room beside each.
  [[nodiscard]] static ClientLimits shared(std::uint64_t all) {
    return {all, all - all / 4, all - all / 2};
  }
};

class ClientShares {
 public:
  // Gives its units back when the last copy goes, on the same thread; may outlive the ClientShares.
  using Share = std::shared_ptr<const void>;
  enum class Bound : std::uint8_t { kNone, kPod, kNamespace, kAll };

  explicit ClientShares(ClientLimits limits) : state_(std::make_shared<State>(limits)) {}

  // The limit that keeps the client from `units` more.
  [[nodiscard]] Bound bound(const ClientIdentity& client, std::uint64_t units) const;
  // Null where there is a bound.
  [[nodiscard]] Share take(const ClientIdentity& client, std::uint64_t units);
  [[nodiscard]] std::uint64_t taken() const { return state_->all; }
  [[nodiscard]] const ClientLimits& limits() const { return state_->limits; }

 private:
  struct State {
    explicit State(ClientLimits given) : limits(given) {}
    const ClientLimits limits;
    std::uint64_t all = 0;
    std::map<std::string, std::uint64_t> ofNamespaces, ofPods;  // without zeros
  };
  const std::shared_ptr<State> state_;
};

// "this pod has", "the pods of its namespace have", "all clients have": for sentences.
[[nodiscard]] std::string holderOf(ClientShares::Bound bound);

}  // namespace hearth
