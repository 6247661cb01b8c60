// How far the digest of one file has come: chunks are hashed in order, from the memory in which
// they came in where they still are there. Used on the key's shard by its FileVerifier; the bytes
// it holds count against that shard's allowance.
#pragma once

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "base/sha256.h"
#include "fetch/loaded_chunk.h"
#include "reactor/synchronization.h"

namespace hearth {

// Bounds the bytes that a shard's hashes hold although the cache files have them already. Outlives
// the verifier while a held file has bytes.
struct HashAllowance {
  std::atomic<std::uint64_t> copiedBytes{0};
  std::atomic<std::size_t> heldBuffers{0};
};

// The bytes of a chunk until they are hashed: the buffer in which they came, or a copy.
class HashBytes {
 public:
  static HashBytes held(std::shared_ptr<HashAllowance> allowance,
                        std::shared_ptr<LoadedChunk> loaded) {
    allowance->heldBuffers.fetch_add(1);
    HashBytes bytes(std::move(allowance), loaded->bytes);
    bytes.loaded_ = std::move(loaded);
    return bytes;
  }
  static HashBytes copied(std::shared_ptr<HashAllowance> allowance,
                          std::span<const std::byte> from) {
    allowance->copiedBytes.fetch_add(from.size());
    std::unique_ptr<std::byte[]> copy(new std::byte[from.size()]);
    std::memcpy(copy.get(), from.data(), from.size());
    HashBytes bytes(std::move(allowance), {copy.get(), from.size()});
    bytes.copy_ = std::move(copy);
    return bytes;
  }
  HashBytes() = default;
  HashBytes(HashBytes&&) noexcept = default;
  HashBytes& operator=(HashBytes&& other) noexcept {
    std::swap(allowance_, other.allowance_);
    std::swap(bytes_, other.bytes_);
    std::swap(loaded_, other.loaded_);
    std::swap(copy_, other.copy_);
    return *this;
  }
  ~HashBytes() {
    if (allowance_ == nullptr) return;
    if (loaded_ != nullptr) allowance_->heldBuffers.fetch_sub(1);
    if (copy_ != nullptr) allowance_->copiedBytes.fetch_sub(bytes_.size());
  }

  [[nodiscard]] bool there() const { return allowance_ != nullptr; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  HashBytes(std::shared_ptr<HashAllowance> allowance, std::span<const std::byte> bytes)
      : allowance_(std::move(allowance)), bytes_(bytes) {}

  std::shared_ptr<HashAllowance> allowance_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<LoadedChunk> loaded_;
  std::unique_ptr<std::byte[]> copy_;
};

struct InOrderHash {
  // `reactor` must remain live while this object is used.
  InOrderHash(Reactor& reactor, std::uint64_t fileGeneration)
      : generation(fileGeneration), stopped(reactor) {
    stopped.set();
  }
  // From the beginning, of the file as it is now.
  void restart(std::uint64_t fileGeneration) {
    (void)hash.finish();
    generation = fileGeneration;
    next = 0;
    waiting.clear();
  }

  Sha256 hash;
  std::uint64_t generation;  // of the file, for which all of it was hashed
  std::uint32_t next = 0;    // chunk
  std::map<std::uint32_t, HashBytes> waiting;
  bool running = false;
  Event stopped;   // no thread hashes: all is hashed that is there, or it failed
  Status failure;  // of the last time that it ran
};

}  // namespace hearth
