// hearth_soak_reader: writes files of a pattern, and reads them for as long as it is let, comparing
// every byte. The 8 bytes at offset 8*i of a file are splitmix64(seed + i), little-endian, so a
// byte says where it belongs and of which state of the file it is.
//
//   write SEED BYTES FILE
//   read|mmap|random SECONDS FILE=SEED[,SEED...] ...
//
// With several seeds a file may be in any of these states, but in one for each open. While it reads
// it writes a line for each thing that is not as it should be, one of how far it is for each half
// second in which a read was answered, and one at the end:
//   wrong FILE OFFSET        bytes that are of no state, or of another than the rest
//   error FILE ERRNO NAME    an open or a read that failed; goes on with another file in a moment
//   at BYTES OPENS           so far
//   done BYTES OPENS
// Exit 0 when it could do its work, whatever it found.
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPieceBytes = 1 << 20;
constexpr std::size_t kRandomBytes = 4096;
constexpr int kRandomReads = 256;
constexpr auto kPauseAfterError = std::chrono::milliseconds(200);

struct PatternFile {
  std::string path;
  std::vector<std::uint64_t> seeds;
};

constexpr auto kReportEvery = std::chrono::milliseconds(500);

class Tally {
 public:
  void opened() { ++opens_; }
  void read(std::uint64_t bytes) {
    bytes_ += bytes;
    const Clock::time_point now = Clock::now();
    if (now - reportedAt_ < kReportEvery) return;
    reportedAt_ = now;
    report("at");
  }
  void report(const char* what) const {
    std::printf("%s %llu %llu\n", what, static_cast<unsigned long long>(bytes_),
                static_cast<unsigned long long>(opens_));
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::uint64_t bytes_ = 0;
  std::uint64_t opens_ = 0;
  Clock::time_point reportedAt_{};
};

// Sebastiano Vigna's splitmix64 (public domain): one word for each place.
std::uint64_t wordAt(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// `offset` is a multiple of 8. The place of the first byte that differs, or the length.
std::size_t agreeing(std::uint64_t seed, std::uint64_t offset, const char* bytes,
                     std::size_t length) {
  std::size_t at = 0;
  for (; at + 8 <= length; at += 8) {
    const std::uint64_t expected = wordAt(seed, (offset + at) / 8);
    if (std::memcmp(bytes + at, &expected, 8) != 0) return at;
  }
  const std::uint64_t last = wordAt(seed, (offset + at) / 8);
  return std::memcmp(bytes + at, &last, length - at) == 0 ? length : at;
}

// Which states of a file the bytes seen since its open can be of.
class States {
 public:
  explicit States(const PatternFile& file) : file_(file), left_(file.seeds) {}
  // False, and said so, when no state is left.
  bool see(std::uint64_t offset, const char* bytes, std::size_t length) {
    std::vector<std::uint64_t> still;
    std::size_t furthest = 0;
    for (const std::uint64_t seed : left_) {
      const std::size_t same = agreeing(seed, offset, bytes, length);
      furthest = std::max(furthest, same);
      if (same == length) still.push_back(seed);
    }
    if (still.empty()) {
      const unsigned long long place = offset + furthest;
      std::printf("wrong %s %llu\n", file_.path.c_str(), place);
      return false;
    }
    left_ = std::move(still);
    return true;
  }

 private:
  const PatternFile& file_;
  std::vector<std::uint64_t> left_;
};

void reportError(const PatternFile& file, int error) {
  std::printf("error %s %d %s\n", file.path.c_str(), error, std::strerror(error));
}

void readWhole(const PatternFile& file, int fd, Tally& tally) {
  static std::vector<char> piece(kPieceBytes);
  States states(file);
  for (std::uint64_t offset = 0;;) {
    const ssize_t got = pread(fd, piece.data(), piece.size(), static_cast<off_t>(offset));
    if (got < 0) return reportError(file, errno);
    if (got == 0) return;
    if (!states.see(offset, piece.data(), static_cast<std::size_t>(got))) return;
    offset += static_cast<std::uint64_t>(got);
    tally.read(static_cast<std::uint64_t>(got));
    if (got % 8 != 0) return;  // only at the end
  }
}

void readRandom(const PatternFile& file, int fd, std::uint64_t size, std::mt19937_64& random,
                Tally& tally) {
  char piece[kRandomBytes];
  States states(file);
  for (int i = 0; i < kRandomReads; ++i) {
    const std::uint64_t offset = random() % std::max<std::uint64_t>(1, size / 8) * 8;
    const ssize_t got = pread(fd, piece, sizeof piece, static_cast<off_t>(offset));
    if (got < 0) return reportError(file, errno);
    if (!states.see(offset, piece, static_cast<std::size_t>(got))) return;
    tally.read(static_cast<std::uint64_t>(got));
  }
}

sigjmp_buf mappingFailed;
void onBusError(int) { siglongjmp(mappingFailed, 1); }

// A page that cannot be read is SIGBUS.
void readMapping(const PatternFile& file, int fd, std::uint64_t size, Tally& tally) {
  if (size == 0) return;
  void* const mapping = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (mapping == MAP_FAILED) return reportError(file, errno);
  volatile std::uint64_t done = 0;
  if (sigsetjmp(mappingFailed, 1) == 0) {
    States states(file);
    const char* const bytes = static_cast<const char*>(mapping);
    while (done < size) {
      const std::size_t length = std::min<std::uint64_t>(kPieceBytes, size - done);
      if (!states.see(done, bytes + done, length)) break;
      done = done + length;
      tally.read(length);
    }
  } else {
    reportError(file, EIO);
  }
  munmap(mapping, size);
}

void readOnce(const std::string& mode, const PatternFile& file, std::mt19937_64& random,
              Tally& tally) {
  const int fd = open(file.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return reportError(file, errno);
  tally.opened();
  struct stat about {};
  if (fstat(fd, &about) != 0) {
    reportError(file, errno);
  } else if (mode == "mmap") {
    readMapping(file, fd, static_cast<std::uint64_t>(about.st_size), tally);
  } else if (mode == "random") {
    readRandom(file, fd, static_cast<std::uint64_t>(about.st_size), random, tally);
  } else {
    readWhole(file, fd, tally);
  }
  close(fd);
}

int readFor(const std::string& mode, double seconds, const std::vector<PatternFile>& files) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  struct sigaction action {};
  action.sa_handler = onBusError;
  sigaction(SIGBUS, &action, nullptr);
  std::mt19937_64 random(std::random_device{}());
  Tally tally;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (std::size_t next = random() % files.size(); Clock::now() < end; ++next) {
    const std::uint64_t before = tally.bytes();
    readOnce(mode, files[next % files.size()], random, tally);
    if (tally.bytes() == before) std::this_thread::sleep_for(kPauseAfterError);
    if (next % files.size() == 0) next += random() % files.size();
  }
  tally.report("done");
  return 0;
}

int writePattern(std::uint64_t seed, std::uint64_t bytes, const char* path) {
  std::FILE* const out = std::fopen(path, "wb");
  if (out == nullptr) {
    std::perror(path);
    return 1;
  }
  std::vector<std::uint64_t> words(kPieceBytes / 8);
  for (std::uint64_t at = 0; at < bytes; at += kPieceBytes) {
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = wordAt(seed, at / 8 + i);
    const std::size_t length = std::min<std::uint64_t>(kPieceBytes, bytes - at);
    if (std::fwrite(words.data(), 1, length, out) != length) {
      std::perror(path);
      std::fclose(out);
      return 1;
    }
  }
  return std::fclose(out) == 0 ? 0 : 1;
}

PatternFile parseFile(std::string_view word) {
  const std::size_t equals = word.rfind('=');
  PatternFile file{std::string(word.substr(0, equals)), {}};
  std::string seeds(word.substr(equals + 1));
  for (char* at = seeds.data(); *at != '\0';) {
    file.seeds.push_back(std::strtoull(at, &at, 10));
    if (*at == ',') ++at;
  }
  return file;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 4 && words[0] == "write") {
    return writePattern(std::strtoull(words[1].c_str(), nullptr, 10),
                        std::strtoull(words[2].c_str(), nullptr, 10), words[3].c_str());
  }
  const bool reads =
      words.size() >= 3 && (words[0] == "read" || words[0] == "mmap" || words[0] == "random");
  if (!reads) {
    std::fprintf(stderr,
                 "usage: hearth_soak_reader write SEED BYTES FILE\n"
                 "       hearth_soak_reader read|mmap|random SECONDS FILE=SEED[,SEED...] ...\n");
    return 2;
  }
  std::vector<PatternFile> files;
  for (std::size_t i = 2; i < words.size(); ++i) files.push_back(parseFile(words[i]));
  return readFor(words[0], std::strtod(words[1].c_str(), nullptr), files);
}
