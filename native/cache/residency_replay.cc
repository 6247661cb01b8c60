#include "cache/residency_replay.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"

namespace hearth {
namespace {

constexpr std::string_view kMagic = "HEARTHRL";
constexpr std::size_t kVersion1HeaderBytes = 16;
constexpr std::size_t kMaxHeaderBytes = 4096;
// Features of the header's required word that we know.
constexpr std::uint64_t kKnownFeatures = 0;
// How much of the log is read at a time.
constexpr std::size_t kLogReadBytes = std::size_t{256} << 10;
// The unit that a disk writes whole.
constexpr std::uint64_t kSectorBytes = 512;

template <class T>
T numberAt(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// A window over the file: bytes() begins where the reader stands and holds a whole record unless
// the file ends before.
class LogWindow {
 public:
  explicit LogWindow(File& file) : file_(file) {}

  // True when fill() has something to do. Callers ask before every record: coroutines that end at
  // once would stack up where the compiler makes no tail calls.
  [[nodiscard]] bool wantsFill() const { return !ended_ && buffer_.size() - at_ < kMaxRecordBytes; }
  [[nodiscard]] Task<Status> fill() {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(at_));
    at_ = 0;
    const std::size_t kept = buffer_.size();
    buffer_.resize(kept + kLogReadBytes);
    const Result<std::size_t> count =
        co_await file_.readAt(std::span(buffer_).subspan(kept), offset_ + kept);
    if (!count.ok()) co_return count.error();
    buffer_.resize(kept + *count);
    ended_ = *count < kLogReadBytes;
    co_return Status();
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return std::span(buffer_).subspan(at_); }
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  void advance(std::size_t bytes) {
    at_ += bytes;
    offset_ += bytes;
  }

 private:
  File& file_;
  std::vector<std::byte> buffer_;
  std::size_t at_ = 0;
  std::uint64_t offset_ = 0;
  bool ended_ = false;
};

enum class HeaderKind { kVersion1, kOurs, kTooNew, kBad };

struct HeaderView {
  HeaderKind kind = HeaderKind::kBad;
  std::size_t bytes = 0;
  std::string version;  // when it is too new
};

HeaderView readHeader(std::span<const std::byte> bytes) {
  if (bytes.size() < kVersion1HeaderBytes) return {};
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) return {};
  if (numberAt<std::uint32_t>(bytes, 12) != crc32c(bytes.first(12))) return {};
  const auto version = numberAt<std::uint32_t>(bytes, 8);
  if (version == 1) return {HeaderKind::kVersion1, kVersion1HeaderBytes, {}};
  if (version != kLogVersion) return {HeaderKind::kTooNew, 0, std::to_string(version)};
  if (bytes.size() < kLogHeaderBytes) return {};
  const std::size_t length = numberAt<std::uint32_t>(bytes, 16);
  if (length < kLogHeaderBytes || length > kMaxHeaderBytes || length > bytes.size()) return {};
  if (numberAt<std::uint32_t>(bytes, length - 4) != crc32c(bytes.first(length - 4))) return {};
  if ((numberAt<std::uint64_t>(bytes, 24) & ~kKnownFeatures) != 0) {
    return {HeaderKind::kTooNew, length,
            std::to_string(version) + "." + std::to_string(numberAt<std::uint32_t>(bytes, 20))};
  }
  return {HeaderKind::kOurs, length, {}};
}

Error tooNew(const std::string& path, const std::string& what) {
  return {ErrorCode::kUnsupported,
          path + " " + what + ", and this version of Hearth reads versions 1 to " +
              std::to_string(kLogVersion) + "." + std::to_string(kLogMinorVersion) +
              "; run the version of Hearth that wrote it or a later one, or empty the cache "
              "directory"};
}

bool beginsAppend(const LogWindow& window) {
  const auto bytes = window.bytes();
  if (bytes.size() < kAppendBytes || numberAt<std::uint32_t>(bytes, 4) != kAppendBytes)
    return false;
  const ParsedRecord parsed = parseRecord(bytes);
  return parsed.kind == ParsedRecord::Kind::kRecord && parsed.record.type == RecordType::kAppend &&
         parsed.record.offset == window.offset();
}

// Some sector of what stands here reads as zeros, up to the length that it begins with.
bool lacksASector(const LogWindow& window) {
  const auto bytes = window.bytes();
  if (bytes.size() < 8) return false;
  const std::size_t length =
      std::clamp<std::size_t>(numberAt<std::uint32_t>(bytes, 4), 8, bytes.size());
  for (std::size_t at = 0; at < std::min(length, kMaxRecordBytes);) {
    const std::size_t end = std::min<std::size_t>(
        bytes.size(), at + kSectorBytes - (window.offset() + at) % kSectorBytes);
    const auto sector = bytes.subspan(at, end - at);
    if (std::all_of(sector.begin(), sector.end(), [](std::byte b) { return b == std::byte{0}; }))
      return true;
    at = end;
  }
  return false;
}

class LogReplay {
 public:
  LogReplay(File& file, std::string path, std::function<void(const ResidencyRecord&)> replayed)
      : window_(file), path_(std::move(path)), replayed_(std::move(replayed)) {}

  [[nodiscard]] Task<Result<ReplayReport>> run() {
    Status filled;
    if (window_.wantsFill()) filled = co_await window_.fill();
    if (!filled.ok()) co_return filled.error();
    const HeaderView header = readHeader(window_.bytes());
    if (header.kind == HeaderKind::kTooNew)
      co_return tooNew(path_, "needs version " + header.version + " of the residency log");
    if (header.kind == HeaderKind::kBad) {
      const Status rest = co_await skipToAppend(false);
      if (!rest.ok()) co_return rest.error();
      report_.rotten = window_.offset() != 0;
      lose(0, false, "the header is damaged");
      co_return std::move(report_);
    }
    report_.version = header.kind == HeaderKind::kVersion1 ? 1 : kLogVersion;
    window_.advance(header.bytes);
    report_.goodBytes = window_.offset();
    for (;;) {
      if (window_.wantsFill()) filled = co_await window_.fill();
      if (!filled.ok()) co_return filled.error();
      if (window_.bytes().empty()) co_return std::move(report_);
      const ParsedRecord parsed = parse();
      if (parsed.kind == ParsedRecord::Kind::kUnknown) {
        co_return tooNew(path_, "holds, at byte " + std::to_string(window_.offset()) +
                                    ", a record that a later version of Hearth must read");
      }
      if (parsed.kind == ParsedRecord::Kind::kRecord ||
          parsed.kind == ParsedRecord::Kind::kSkipped) {
        take(parsed);
        continue;
      }
      const Status passed = co_await pass(parsed.kind);
      if (!passed.ok()) co_return passed.error();
    }
  }

 private:
  [[nodiscard]] ParsedRecord parse() const {
    return report_.version == 1 ? parseRecordVersion1(window_.bytes())
                                : parseRecord(window_.bytes());
  }

  void take(const ParsedRecord& parsed) {
    window_.advance(parsed.bytes);
    report_.goodBytes = window_.offset();
    if (parsed.kind == ParsedRecord::Kind::kSkipped) {
      ++report_.skipped;
    } else if (parsed.record.type == RecordType::kAppend) {
      appendEnd_ = parsed.record.offset + parsed.record.size;
    } else {
      ++report_.records;
      replayed_(parsed.record);
    }
  }

  // Past what is no record, to the next append or the end.
  [[nodiscard]] Task<Status> pass(ParsedRecord::Kind kind) {
    const std::uint64_t from = window_.offset();
    bool torn = looksTorn(kind);
    const Status skipped = co_await skipToAppend(true);
    if (!skipped.ok()) co_return skipped;
    if (!window_.bytes().empty()) torn = false;
    lose(from, torn,
         torn && kind == ParsedRecord::Kind::kCut ? "the file ends within a record"
                                                  : "a record does not match its checksum");
    if (!torn) {
      report_.rotten = true;
      replayed_({.type = RecordType::kDoubt});
    }
    co_return Status();
  }

  // A write that a crash cut short ends early or lacks whole sectors. (A sector that was written
  // before is whole up to there.)
  [[nodiscard]] bool looksTorn(ParsedRecord::Kind kind) const {
    const std::uint64_t end = window_.offset() + window_.bytes().size();
    const bool whole = window_.offset() < appendEnd_
                           ? end >= appendEnd_
                           : window_.bytes().size() >= kAppendBytes && report_.version != 1;
    return (kind == ParsedRecord::Kind::kCut && !whole) || lacksASector(window_);
  }

  // To the next beginning of an append that is behind the reader, else to the end. Version 1 has
  // none: there any record shows that bytes before it were lost.
  [[nodiscard]] Task<Status> skipToAppend(bool stop) {
    for (;;) {
      Status filled;
      if (window_.wantsFill()) filled = co_await window_.fill();
      if (!filled.ok()) co_return filled;
      if (window_.bytes().empty()) co_return Status();
      window_.advance(std::min<std::size_t>(4, window_.bytes().size()));
      const bool found = report_.version == 1 ? parse().kind == ParsedRecord::Kind::kRecord
                                              : beginsAppend(window_);
      if (stop && found) co_return Status();
    }
  }

  void lose(std::uint64_t from, bool torn, std::string reason) {
    const std::uint64_t bytes = window_.offset() - from;
    report_.lostBytes += bytes;
    if (report_.losses.size() == ReplayReport::kMaxLosses) return;
    report_.losses.push_back({from, bytes, report_.records, torn, std::move(reason)});
  }

  LogWindow window_;
  const std::string path_;
  const std::function<void(const ResidencyRecord&)> replayed_;
  ReplayReport report_;
  std::uint64_t appendEnd_ = 0;  // of the append in which the window stands, or before it
};

}  // namespace

std::vector<std::byte> logHeader() {
  std::vector<std::byte> bytes(kLogHeaderBytes);
  const auto put = [&bytes](std::size_t offset, std::uint32_t value) {
    std::memcpy(bytes.data() + offset, &value, sizeof value);
  };
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  put(8, kLogVersion);
  put(12, crc32c({bytes.data(), 12}));
  put(16, kLogHeaderBytes);
  put(20, kLogMinorVersion);
  put(kLogHeaderBytes - 4, crc32c({bytes.data(), kLogHeaderBytes - 4}));
  return bytes;
}

Task<Result<ReplayReport>> replayLog(File& file, std::string path,
                                     std::function<void(const ResidencyRecord&)> replayed) {
  LogReplay replay(file, std::move(path), std::move(replayed));
  co_return co_await replay.run();
}

}  // namespace hearth
