// The kind of file at a path, as stat(2) says it. Pure: any thread.
#pragma once

#include <sys/stat.h>

#include <cstdint>

#include "wire/client_message.h"

namespace hearth::gd2fs {

[[nodiscard]] inline std::uint32_t typeBits(ResolvedKind kind) {
  switch (kind) {
    case ResolvedKind::kFile:
      return S_IFREG;
    case ResolvedKind::kFolder:
      return S_IFDIR;
    case ResolvedKind::kSymlink:
      return S_IFLNK;
  }
}

}  // namespace hearth::gd2fs
