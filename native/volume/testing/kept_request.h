// Keeps one request as a mount's journal does. For tests.
#pragma once

#include <optional>

#include "volume/request_note.h"

namespace hearth::testing_support {

class KeptRequest final : public RequestNote {
 public:
  // The request as the next agent gets it, after `asked` was sent by the one before.
  explicit KeptRequest(std::optional<AskedChange> before = std::nullopt) : before_(before) {}
  ~KeptRequest() override { release(); }
  std::optional<AskedChange> earlier() const override { return before_; }
  bool keep(const AskedChange& change) override {
    asked = change;
    return true;
  }

  std::optional<AskedChange> asked;

 private:
  const std::optional<AskedChange> before_;
};

}  // namespace hearth::testing_support
