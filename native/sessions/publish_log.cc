#include "sessions/publish_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>

#include "base/byte_codec.h"
#include "base/crc32c.h"

namespace hearth {
namespace {

constexpr std::uint64_t kPublishMagic = 0x31424c5054524148;  // "HARTPLB1"
constexpr std::uint64_t kRewriteFromBytes = std::uint64_t{1} << 20;
constexpr std::size_t kRecordHeadBytes = 32;

std::vector<std::byte> encoded(const PublishRecord& record) {
  ByteWriter fields;
  fields.u32(static_cast<std::uint32_t>(record.chunks.size()));
  fields.u64(static_cast<std::uint64_t>(record.version.session));
  fields.u64(record.length);
  fields.u32(record.version.counter);
  fields.u32(record.first);
  for (const ChunkHash& chunk : record.chunks) fields.bytes(std::as_bytes(std::span(chunk)));
  const std::vector<std::byte> checked = fields.take();
  ByteWriter out;
  out.u32(crc32c(checked));
  out.bytes(checked);
  return out.take();
}

// The record at the front of `bytes`, which it shortens.
std::optional<PublishRecord> takeRecord(std::span<const std::byte>& bytes) {
  if (bytes.size() < kRecordHeadBytes) return std::nullopt;
  ByteReader in(bytes);
  const std::uint32_t checksum = in.u32();
  const std::uint32_t count = in.u32();
  const std::uint64_t size = kRecordHeadBytes + std::uint64_t{count} * sizeof(ChunkHash);
  if (bytes.size() < size || crc32c(bytes.subspan(4, size - 4)) != checksum) return std::nullopt;
  PublishRecord record;
  record.version.session = tree::SessionId{in.u64()};
  record.length = in.u64();
  record.version.counter = in.u32();
  record.first = in.u32();
  for (std::uint32_t i = 0; i < count; ++i) record.chunks.push_back(in.fixed<16>());
  bytes = bytes.subspan(size);
  return record;
}

Status writeAll(int file, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errnoError(errno, "writing " + path);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<PublishLog>> PublishLog::open(const std::string& path) {
  std::unique_ptr<PublishLog> log(new PublishLog(path));
  if (const Status read = log->read(); !read.ok()) return read.error();
  if (const Status begun = log->rewrite(); !begun.ok()) return begun.error();
  return log;
}

Status PublishLog::read() {
  std::ifstream file(path_, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  ByteReader in(bytes);
  const std::uint64_t magic = in.u64();
  key_ = in.fixed<16>();
  // Without its key the records are of no use.
  if (!in.ok() || magic != kPublishMagic) {
    key_ = newHashKey();
    begun_ = true;
    return {};
  }
  bytes = bytes.subspan(sizeof magic + key_.size());
  while (auto record = takeRecord(bytes)) {
    const tree::SessionId session = record->version.session;
    records_.insert_or_assign(session, std::move(*record));
  }
  return {};
}

Status PublishLog::rewrite() {
  ByteWriter out;
  out.u64(kPublishMagic);
  out.bytes(std::as_bytes(std::span(key_)));
  for (const auto& [session, record] : records_) out.bytes(encoded(record));
  const std::vector<std::byte> bytes = out.take();
  const std::string aside = path_ + ".new";
  OwnedFd made(::open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC,
                      S_IRUSR | S_IWUSR));
  if (!made) return errnoError(errno, "making " + aside);
  if (const Status written = writeAll(made.get(), bytes, aside); !written.ok()) return written;
  if (::rename(aside.c_str(), path_.c_str()) != 0) return errnoError(errno, "naming " + path_);
  file_ = std::move(made);
  bytes_ = bytes.size();
  rewriteAt_ = std::max(kRewriteFromBytes, 2 * bytes_);
  return {};
}

const PublishRecord* PublishLog::find(const tree::ContentVersion& version) const {
  const auto found = records_.find(version.session);
  return found != records_.end() && found->second.version == version ? &found->second : nullptr;
}

bool PublishLog::isUnread(const tree::ContentVersion& version) const {
  const auto found = records_.find(version.session);
  return !begun_ && (found == records_.end() || found->second.version.counter < version.counter);
}

Status PublishLog::add(PublishRecord record) {
  const std::vector<std::byte> bytes = encoded(record);
  const tree::SessionId session = record.version.session;
  records_.insert_or_assign(session, std::move(record));
  bytes_ += bytes.size();
  // A record that was cut off would hide those behind it.
  if (bytes_ >= rewriteAt_ || !file_) return rewrite();
  Status written = writeAll(file_.get(), bytes, path_);
  if (!written.ok()) file_.reset();
  return written;
}

void PublishLog::drop(tree::SessionId session) { records_.erase(session); }

}  // namespace hearth
