// Reads of a directory origin's file. Private to this room. Reactor's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "files/file_system.h"
#include "origin/origin_client.h"
#include "reactor/reactor.h"
#include "reactor/synchronization.h"

namespace hearth {

class DirectoryRead {
 public:
  // All references outlive run(); `cancelled` set makes it end with kCancelled.
  DirectoryRead(Reactor& reactor, FileSystem& files, const Event& cancelled,
                OriginStatistics& statistics);

  // Fills `into` from `offset` of the file; errors and `filled` as OriginClient::fetch. A symbolic
  // link below the location's directory is refused, as is everything that is not a regular file.
  [[nodiscard]] Task<Status> run(Location location, OriginExpectation expectation,
                                 std::uint64_t offset, std::vector<std::span<std::byte>> into,
                                 std::function<void(std::size_t)> filled);

 private:
  Task<Status> open(const Location& location);
  Status check(const FileInfo& info) const;
  Task<Status> unchanged();
  Task<void> readPiece(std::size_t index, std::uint64_t offset, std::span<std::byte> into);

  Reactor& reactor_;
  FileSystem& files_;
  const Event& cancelled_;
  OriginStatistics& statistics_;
  std::string path_;
  OriginExpectation expectation_;
  std::unique_ptr<File> file_;
  FileInfo opened_;
  Semaphore window_;
  Gate reads_;
  std::vector<std::unique_ptr<Event>> ended_;  // one a piece
  Status failure_;                             // the first
};

}  // namespace hearth
