// The validator git:<object id>, of files whose git blob id is known: the id is a digest of all
// bytes, so it proves them wherever they come from. Private to this room. Source: gitobject format,
// "blob SIZE NUL bytes".
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "origin/origin_client.h"
#include "reactor/synchronization.h"

namespace hearth {

// Of SHA-1 repositories 40 hexadecimal digits, of SHA-256 ones 64.
class GitBlob {
 public:
  // Larger files have other validators: their ids are known only when all of the file was read.
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{16} << 20;

  // Nothing when the validator is of another kind or malformed.
  [[nodiscard]] static std::optional<GitBlob> of(std::string_view validator);

  // True when these are all bytes of the file.
  [[nodiscard]] bool names(std::span<const std::span<std::byte>> bytes) const;

 private:
  explicit GitBlob(std::string id) : id_(std::move(id)) {}
  std::string id_;
};

// Reads a range of a file by reading all of the file and comparing its id before a piece is given.
// Reactor's thread.
class GitBlobReader {
 public:
  // One fetch without a validator, into memory that holds all of the file. A value of its own each
  // time.
  using Fetch = std::function<Task<Status>(Location location, OriginExpectation expectation,
                                           std::vector<std::span<std::byte>> into)>;

  // `fetch` must not outlive what it refers to; `cancelled` must remain live while this object is
  // used.
  GitBlobReader(Reactor& reactor, Event& cancelled, int attempts, Clock::duration firstBackOff);

  // As OriginClient::fetch. Bytes of another file are asked for again, as a server that is busy
  // answers with a page of its own; kCorrupt when they are other ones every time.
  [[nodiscard]] Task<Status> read(Fetch fetch, Location location, OriginExpectation expectation,
                                  std::uint64_t offset, std::vector<std::span<std::byte>> into,
                                  std::function<void(std::size_t)> filled);

 private:
  Event& cancelled_;
  // Files of which a part was asked for are read into memory beside that of the pieces, one at a
  // time.
  Semaphore spare_;
  const int attempts_;
  const Clock::duration firstBackOff_;
};

}  // namespace hearth
