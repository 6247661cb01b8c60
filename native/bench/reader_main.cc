// hearth_bench_reader: reads files as an application does and prints how long that took, alone
// on a line: BYTES SECONDS. The time begins before the first open and ends after the last close,
// so that the start of a process is not in it.
//
//   read FILE...               whole files, one after the other, by read() of 1 MiB
//   opened FILE...             the same of files that are all open before: prints a line when they
//                              are, and begins when a line comes in
//   parallel COUNT FILE...     the same by COUNT readers, each of which takes the next file
//   direct COUNT FILE          one file past the page cache, by COUNT readers of 4 MiB at a time
//   mmap FILE...               whole files through a shared mapping, every byte touched
//   random COUNT SEED FILE     COUNT reads of 4 KiB at random aligned offsets
//   small FOLDER               open, read and close each file of a folder
//   shuffled SEED FOLDER       the same of all files below a folder, in random order; listing them,
//                              which is done before, is not in the time
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kReadBytes = 1 << 20;
constexpr std::size_t kRandomBytes = 4096;
constexpr std::size_t kDirectBytes = 4 << 20;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "hearth_bench_reader: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

class OpenedFile {
 public:
  explicit OpenedFile(const std::string& path)
      : path_(path), fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) fail(path);
  }
  ~OpenedFile() { close(fd_); }
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] std::uint64_t size() const {
    struct stat info {};
    if (fstat(fd_, &info) != 0) fail(path_);
    return static_cast<std::uint64_t>(info.st_size);
  }

 private:
  const std::string path_;
  const int fd_;
};

struct Buffer {
  std::unique_ptr<char, decltype(&std::free)> memory{
      static_cast<char*>(std::aligned_alloc(4096, kReadBytes)), &std::free};
  Buffer() { std::memset(memory.get(), 1, kReadBytes); }  // its page faults are not the file's
};

std::uint64_t readToEnd(const OpenedFile& file, const std::string& path, Buffer& buffer) {
  std::uint64_t total = 0;
  for (;;) {
    const ssize_t count = read(file.fd(), buffer.memory.get(), kReadBytes);
    if (count < 0) fail(path);
    if (count == 0) return total;
    total += static_cast<std::uint64_t>(count);
  }
}

std::uint64_t readWhole(const std::string& path, Buffer& buffer) {
  return readToEnd(OpenedFile(path), path, buffer);
}

std::uint64_t readParallel(std::size_t readers, std::span<const std::string> paths) {
  std::atomic<std::size_t> next = 0;
  std::atomic<std::uint64_t> total = 0;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < readers; ++i) {
    threads.emplace_back([&] {
      Buffer buffer;
      for (std::size_t at = next++; at < paths.size(); at = next++)
        total += readWhole(paths[at], buffer);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return total;
}

std::uint64_t readDirect(std::size_t readers, const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  if (fd < 0) fail(path);
  std::atomic<std::uint64_t> next = 0, total = 0;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < readers; ++i) {
    threads.emplace_back([&] {
      const std::unique_ptr<char, decltype(&std::free)> memory(
          static_cast<char*>(std::aligned_alloc(4096, kDirectBytes)), &std::free);
      for (ssize_t count = 1; count != 0; total += static_cast<std::uint64_t>(count)) {
        const auto offset = static_cast<off_t>(next.fetch_add(kDirectBytes));
        count = pread(fd, memory.get(), kDirectBytes, offset);
        if (count < 0) fail(path);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  close(fd);
  return total;
}

// Keeps the compiler from dropping the reads of a mapping.
volatile std::uint64_t sink = 0;

std::uint64_t mapWhole(const std::string& path) {
  const OpenedFile file(path);
  const std::uint64_t size = file.size();
  if (size == 0) return 0;
  void* const address = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd(), 0);
  if (address == MAP_FAILED) fail(path);
  const auto* const words = static_cast<const std::uint64_t*>(address);
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < size / sizeof *words; ++i) sum += words[i];
  sink = sum;
  munmap(address, size);
  return size;
}

std::uint64_t readRandom(const std::string& path, std::uint64_t count, std::uint64_t seed,
                         Buffer& buffer) {
  const OpenedFile file(path);
  std::mt19937_64 random(seed);
  const std::uint64_t blocks = file.size() / kRandomBytes;
  if (blocks == 0) {
    errno = EINVAL;
    fail(path + " is smaller than one block");
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto offset = static_cast<off_t>(random() % blocks * kRandomBytes);
    if (pread(file.fd(), buffer.memory.get(), kRandomBytes, offset) !=
        static_cast<ssize_t>(kRandomBytes)) {
      fail(path);
    }
  }
  return count * kRandomBytes;
}

std::uint64_t readFolder(const std::string& path, Buffer& buffer) {
  DIR* const folder = opendir(path.c_str());
  if (folder == nullptr) fail(path);
  std::uint64_t total = 0;
  while (const dirent* const entry = readdir(folder)) {
    if (entry->d_name[0] != '.') total += readWhole(path + "/" + entry->d_name, buffer);
  }
  closedir(folder);
  return total;
}

// Of a machine with the same names the same order for the same seed.
std::vector<std::string> shuffledFilesBelow(const std::string& folder, std::uint64_t seed) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path().string());
  }
  std::ranges::sort(paths);
  std::ranges::shuffle(paths, std::mt19937_64(seed));
  return paths;
}

int usage() {
  std::fputs(
      "usage: hearth_bench_reader read|opened|mmap FILE... | parallel COUNT FILE... | direct COUNT "
      "FILE | "
      "random COUNT SEED FILE | small FOLDER | shuffled SEED FOLDER\n",
      stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 2) return usage();
  const std::string& mode = words.front();
  Buffer buffer;
  std::uint64_t bytes = 0;
  std::vector<std::string> shuffled;
  if (mode == "shuffled" && words.size() == 3)
    shuffled = shuffledFilesBelow(words[2], std::stoull(words[1]));
  std::vector<std::unique_ptr<OpenedFile>> opened;
  if (mode == "opened") {
    for (std::size_t i = 1; i < words.size(); ++i)
      opened.push_back(std::make_unique<OpenedFile>(words[i]));
    std::puts("opened");
    std::fflush(stdout);
    while (std::getchar() != '\n' && std::feof(stdin) == 0) continue;
  }
  const auto start = std::chrono::steady_clock::now();
  if (mode == "opened") {
    for (std::size_t i = 0; i < opened.size(); ++i)
      bytes += readToEnd(*opened[i], words[i + 1], buffer);
  } else if (mode == "read") {
    for (std::size_t i = 1; i < words.size(); ++i) bytes += readWhole(words[i], buffer);
  } else if (mode == "mmap") {
    for (std::size_t i = 1; i < words.size(); ++i) bytes += mapWhole(words[i]);
  } else if (mode == "parallel" && words.size() > 2) {
    bytes = readParallel(std::stoull(words[1]), std::span(words).subspan(2));
  } else if (mode == "direct" && words.size() == 3) {
    bytes = readDirect(std::stoull(words[1]), words[2]);
  } else if (mode == "random" && words.size() == 4) {
    bytes = readRandom(words[3], std::stoull(words[1]), std::stoull(words[2]), buffer);
  } else if (mode == "small") {
    bytes = readFolder(words[1], buffer);
  } else if (mode == "shuffled" && words.size() == 3) {
    for (const std::string& path : shuffled) bytes += readWhole(path, buffer);
  } else {
    return usage();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%llu %.6f\n", static_cast<unsigned long long>(bytes), took.count());
  return 0;
}
