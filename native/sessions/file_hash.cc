#include "sessions/file_hash.h"

#include <openssl/evp.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "base/crc32c.h"
#include "base/generated/constants.h"
#include "reactor/synchronization.h"

namespace hearth {
namespace {

// Stays in the processor's cache between the copy from the page cache and the sums.
constexpr std::size_t kPieceBytes = 256u << 10;
// Whole pages: the kernel's copy took up to half as long again into memory that begins elsewhere
// (measured).
struct alignas(4096) Piece {
  std::array<std::byte, kPieceBytes> bytes;
};
constexpr std::size_t kMaxThreads = 4;

// GMAC (NIST SP 800-38D: AES-GCM that only authenticates) under one key, with one nonce: root alone
// sees a tag, and equal tags mean equal chunks but for a chance of 2^-100 or less.
class ChunkMac {
 public:
  explicit ChunkMac(const HashKey& key) : context_(EVP_CIPHER_CTX_new()) {
    EVP_EncryptInit_ex(context_.get(), EVP_aes_128_gcm(), nullptr, key.data(), kNonce.data());
  }
  void begin() { EVP_EncryptInit_ex(context_.get(), nullptr, nullptr, nullptr, kNonce.data()); }
  void add(std::span<const std::byte> bytes) {
    int count = 0;
    EVP_EncryptUpdate(context_.get(), nullptr, &count,
                      reinterpret_cast<const std::uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  }
  [[nodiscard]] ChunkHash end() {
    ChunkHash tag{};
    int count = 0;
    EVP_EncryptFinal_ex(context_.get(), tag.data(), &count);
    EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_GCM_GET_TAG, static_cast<int>(tag.size()),
                        tag.data());
    return tag;
  }

 private:
  static constexpr std::array<std::uint8_t, 12> kNonce{};
  struct Free {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
  };
  std::unique_ptr<EVP_CIPHER_CTX, Free> context_;
};

}  // namespace

// Memory for readings, one piece for each thread that reads: allocated anew for each file it would
// cost as many page faults. Any thread.
class FileHasher::Pieces {
 public:
  [[nodiscard]] std::unique_ptr<Piece> take() {
    const std::lock_guard lock(mutex_);
    if (spare_.empty()) return std::make_unique_for_overwrite<Piece>();
    std::unique_ptr<Piece> piece = std::move(spare_.back());
    spare_.pop_back();
    return piece;
  }
  void giveBack(std::unique_ptr<Piece> piece) {
    const std::lock_guard lock(mutex_);
    spare_.push_back(std::move(piece));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Piece>> spare_;
};

struct FileHasher::Work {
  Work(FileHasher& hasher, int file, bool hashes)
      : pieces(*hasher.pieces_), descriptor(file), key(hasher.key_), keyed(hashes) {}

  Pieces& pieces;
  const int descriptor;
  const HashKey& key;
  const bool keyed;
  Progress* progress = nullptr;
  FileHash hash;
  std::atomic<std::uint32_t> next{0};
  std::atomic<int> error{0};
  std::atomic<bool> shrunk{false};

  void setLength(std::uint64_t length) {
    hash.length = length;
    hash.blockChecksums.resize((length + kBlockBytes - 1) / kBlockBytes);
    if (keyed) hash.chunks.resize(chunks());
  }
  [[nodiscard]] std::size_t chunks() const {
    return static_cast<std::size_t>((hash.length + kChunkBytes - 1) / kChunkBytes);
  }
  // Chunks that no thread has taken yet.
  [[nodiscard]] std::size_t left() const {
    return chunks() - std::min<std::size_t>(chunks(), next);
  }

  // Takes chunk after chunk until none is left. Blocks.
  void run() {
    std::optional<ChunkMac> mac;
    if (keyed) mac.emplace(key);
    std::unique_ptr<Piece> piece = pieces.take();
    while (error == 0 && !shrunk) {
      const std::uint32_t chunk = next.fetch_add(1);
      if (chunk >= chunks() || !one(chunk, mac, piece->bytes)) break;
    }
    pieces.giveBack(std::move(piece));
  }

 private:
  [[nodiscard]] bool one(std::uint32_t chunk, std::optional<ChunkMac>& mac,
                         std::span<std::byte> piece) {
    const std::uint64_t begin = chunk * kChunkBytes;
    const std::uint64_t end = std::min(begin + kChunkBytes, hash.length);
    if (mac) mac->begin();
    for (std::uint64_t at = begin; at < end; at += piece.size()) {
      const auto bytes = piece.first(std::min<std::uint64_t>(piece.size(), end - at));
      if (!read(bytes, at)) return false;
      for (std::size_t block = 0; block < bytes.size(); block += kBlockBytes) {
        const std::size_t length = std::min<std::size_t>(kBlockBytes, bytes.size() - block);
        hash.blockChecksums[(at + block) / kBlockBytes] = crc32c(bytes.subspan(block, length));
      }
      if (mac) mac->add(bytes);
    }
    if (mac) hash.chunks[chunk] = mac->end();
    if (progress != nullptr) progress->moved();
    return true;
  }
  [[nodiscard]] bool read(std::span<std::byte> into, std::uint64_t offset) {
    while (!into.empty()) {
      const ssize_t count =
          ::pread(descriptor, into.data(), into.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) error = errno;
      if (count == 0) shrunk = true;
      if (count <= 0) return false;
      into = into.subspan(static_cast<std::size_t>(count));
      offset += static_cast<std::uint64_t>(count);
    }
    return true;
  }
};

HashKey newHashKey() {
  HashKey key{};
  // Up to 256 bytes are never cut short (getrandom(2)).
  if (getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size())) std::abort();
  return key;
}

FileHasher::FileHasher()
    : key_(newHashKey()),
      pieces_(std::make_unique<Pieces>()),
      pool_({.threads =
                 std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMaxThreads)}) {}

FileHasher::~FileHasher() = default;

Task<void> FileHasher::share(Reactor& reactor, ThreadPool& pool, Work& work) {
  auto run = [&work] {
    work.run();
    return true;
  };
  co_await reactor.offload(pool, run);
}

Task<Result<FileHash>> FileHasher::hash(Reactor& reactor, int descriptor, std::uint64_t length,
                                        Progress* progress) {
  Work work(*this, descriptor, true);
  work.progress = progress;
  work.setLength(length);
  co_return co_await finish(reactor, work);
}

Task<Result<FileHash>> FileHasher::checksums(Reactor& reactor, int descriptor,
                                             std::function<Result<std::uint64_t>()> begin) {
  Work work(*this, descriptor, false);
  // A small file costs one hand-over to another thread.
  const auto first = [&]() -> Status {
    const Result<std::uint64_t> length = begin();
    if (!length.ok()) return length.error();
    work.setLength(*length);
    if (work.chunks() <= 1) work.run();
    return {};
  };
  if (const Status begun = co_await reactor.offload(pool_, first); !begun.ok())
    co_return begun.error();
  co_return co_await finish(reactor, work);
}

Task<Result<FileHash>> FileHasher::finish(Reactor& reactor, Work& work) {
  Gate shares(reactor);
  for (std::size_t i = 0; i < std::min(work.left(), kMaxThreads); ++i)
    shares.spawn(share(reactor, pool_, work));
  co_await shares.close();
  if (work.error != 0) co_return errnoError(work.error, "reading a session file");
  if (work.shrunk)
    co_return Error{ErrorCode::kConflict, "the session file was cut while it was read"};
  co_return std::move(work.hash);
}

}  // namespace hearth
