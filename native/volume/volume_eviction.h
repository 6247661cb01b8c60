// Which files of a volume go when it is full: whole published files that nobody writes, by least
// use (eviction/eviction_policy.h). A use is an open for reading. Pure but for the tree that it
// reads; on the leader's reactor.
//
// A volume without limits needs no order, and none is kept.
#pragma once

#include <cstdint>
#include <optional>

#include "eviction/eviction_policy.h"
#include "namespace/namespace.h"

namespace hearth {

class VolumeEviction {
 public:
  // The tree outlives this object.
  explicit VolumeEviction(const tree::Namespace& tree);

  // Takes in files that the tree had before, in the order in which they were made; looks at `most`
  // of its nodes. False: it knows all.
  bool learn(std::uint32_t most);
  // The tree executed the change with this answer.
  void changed(const tree::Answer& answer);
  // A file was opened for reading.
  void used(tree::InodeId file);

  // The change finds no room within the volume's limits, and would if other files went.
  [[nodiscard]] bool isFullFor(const tree::ClientChange& change) const;
  // It knows no file that could ever go.
  [[nodiscard]] bool isEmpty() const { return policy_.files() == 0; }
  // The file that goes next; none: all are written now, or have several names.
  [[nodiscard]] std::optional<tree::InodeId> victim();

 private:
  [[nodiscard]] bool isBounded() const;
  void keep(tree::InodeId file);

  const tree::Namespace& tree_;
  EvictionPolicy policy_;
  std::uint32_t learned_ = 0;  // numbers of the tree's nodes below this
  bool bounded_ = false;
};

}  // namespace hearth
