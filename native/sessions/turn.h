// The turn of one written file. The file is forgotten when nobody has its turn, or waits for it,
// and it has no session.
#pragma once

#include <utility>

#include "sessions/volume_sessions.h"

namespace hearth {

class VolumeSessions::Turn {
 public:
  Turn(VolumeSessions& owner, FilePtr file) : owner_(&owner), file_(std::move(file)) {}
  Turn(Turn&& other) noexcept : owner_(other.owner_), file_(std::exchange(other.file_, nullptr)) {}
  Turn& operator=(Turn&&) = delete;
  ~Turn() {
    if (file_ == nullptr) return;
    file_->turn.release(1);
    if (--file_->holders == 0 && !file_->session) owner_->files_.erase(file_->inode);
  }

  [[nodiscard]] const FilePtr& file() const { return file_; }
  [[nodiscard]] std::optional<WriteSession>& session() const { return file_->session; }

 private:
  VolumeSessions* owner_;
  FilePtr file_;
};

}  // namespace hearth
