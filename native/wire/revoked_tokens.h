// Tokens that an administrator has taken back before they expire. Agents refuse them, and end the
// connections of their clients. Pure: any thread.
#pragma once

#include <set>
#include <string>

#include "wire/capability.h"

namespace hearth {

struct RevokedTokens {
  std::set<std::string> tokens;      // by Capability::id
  std::set<std::string> pods;        // as NAMESPACE/UID: all tokens of the pod
  std::set<std::string> namespaces;  // all tokens of all pods of the namespace

  [[nodiscard]] bool covers(const Capability& capability) const {
    if (tokens.contains(capability.id)) return true;
    if (capability.pod.empty()) return false;
    return pods.contains(capability.podNamespace + "/" + capability.pod) ||
           namespaces.contains(capability.podNamespace);
  }
};

}  // namespace hearth
