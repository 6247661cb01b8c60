// Sequences of calls of the C interface, with arguments that no program should give, against a real
// agent: none crashes or hangs, each accepted request ends once, and no byte is written that is
// outside the SGEs of a request or differs from the file's.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/include/xfer/gd2fs.h"

namespace {

constexpr std::size_t kMemoryBytes = 64u << 10;
constexpr char kUntouched = '\x5a';
const std::string kFile = "/dataset/test/file";

void require(bool holds) {
  if (!holds) std::abort();
}

// An agent for all inputs: hearth_gd2fs_serve, which HEARTH_GD2FS_SERVE names, a process of its
// own, so that only the library is fuzzed. It ends with its standard input, which is open as long
// as this process lives.
struct Served {
  Served() {
    const char* const program = std::getenv("HEARTH_GD2FS_SERVE");
    std::array<int, 2> in{}, out{};
    require(program != nullptr && pipe2(in.data(), O_CLOEXEC) == 0 &&
            pipe2(out.data(), O_CLOEXEC) == 0);
    if (fork() == 0) {
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      execl(program, program, nullptr);
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    FILE* const said = fdopen(out[0], "r");
    std::array<char, 5000> line{};
    const auto next = [&] {
      require(std::fgets(line.data(), line.size(), said) != nullptr);
      return std::string(line.data(), std::strcspn(line.data(), "\n"));
    };
    address = next();
    setenv("HEARTH_TOKEN", next().c_str(), 1);
    setenv("HEARTH_CLIENTS_SOCKET", "", 1);
    std::ifstream file(next(), std::ios::binary);
    expected.assign(std::istreambuf_iterator<char>(file), {});
    std::fclose(said);
  }
  std::string address, expected;
};

Served& served() {
  static Served* const one = new Served;
  return *one;
}

// Arguments come from the input; zeros when it has ended.
class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  std::uint64_t number(std::size_t size = 1) {
    std::uint64_t value = 0;
    for (; size != 0 && !bytes_.empty(); --size) {
      value = value << 8 | bytes_.front();
      bytes_ = bytes_.subspan(1);
    }
    return value;
  }
  std::string text() {
    const std::size_t size = std::min<std::size_t>(number(), bytes_.size());
    const std::string taken(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(size));
    bytes_ = bytes_.subspan(size);
    return taken;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

struct Asked {
  bool reads = false, ofFile = false, ended = false;
  std::uint64_t offset = 0;
  std::vector<xfer_gd2fs_sge> sges;
  xfer_gd2fs_completion done{};
  xfer_gd2fs_stat st{};
  std::array<xfer_gd2fs_dirent, 2> entries{};
};

struct Connected {
  xfer_gd2fs_ctx* ctx = nullptr;
  bool closed = false;
  std::size_t inFlight = 0;
  std::vector<xfer_gd2fs_iomem*> memory;
};

class Program {
 public:
  explicit Program(std::span<const std::uint8_t> bytes) : input_(bytes) {
    memory_.assign(kMemoryBytes, kUntouched);
    connect("test");
  }
  void run() {
    while (!input_.empty()) step();
    for (Connected& each : connected_) end(each);
    check();
  }

 private:
  void connect(const std::string& cluster) {
    xfer_gd2fs_options options{};
    options.cp_address = served().address.c_str();
    options.cluster_id = cluster.c_str();
    options.iothread_count = 1;
    options.timeout = 2000;
    if (xfer_gd2fs_ctx* const ctx = xfer_gd2fs_connect(&options)) connected_.push_back({ctx});
  }
  void step() {
    Connected none;
    Connected& on = connected_.empty() ? none : connected_[input_.number() % connected_.size()];
    switch (input_.number() % 11) {
      case 0:
        if (connected_.size() < 3) connect("test");
        break;
      case 1:
        if (connected_.size() < 3) connect(input_.text());
        break;
      case 2:
        xfer_gd2fs_close(on.ctx);
        on.closed = true;
        break;
      case 3:
        enroll(on);
        break;
      case 4:
        forget(on);
        break;
      case 5:
        stat(on);
        break;
      case 6:
        list(on);
        break;
      case 7:
        advise(on);
        break;
      case 8:
        take(on, input_.number() % 2 == 0 ? 0 : -1);
        break;
      case 9:
        drain(on, input_.number() % 2 == 0 ? 0 : -1);
        break;
      default:
        read(on);
    }
  }
  std::string path() {
    switch (input_.number() % 6) {
      case 0:
        return "/dataset/test";
      case 1:
        return "/dataset/" + input_.text();
      case 2:
        return input_.text();
      case 3:
        return "/dataset/" + std::string(4096 + input_.number() % 4, 'a');
      default:
        return kFile;
    }
  }
  void enroll(Connected& on) {
    const std::size_t from = input_.number(2) % kMemoryBytes;
    const std::size_t size = input_.number(2) % (kMemoryBytes - from + 1);
    const bool odd = input_.number() % 8 == 0;
    void* const at = odd ? nullptr : memory_.data() + from;
    if (auto* const iomem = xfer_gd2fs_reg_iomem(on.ctx, at, size, odd ? this : nullptr))
      on.memory.push_back(iomem);
  }
  xfer_gd2fs_iomem* memoryOf(const Connected& on) {
    const std::uint64_t which = input_.number();
    // Also those of other contexts, and none at all.
    const bool foreign = which % 16 == 0 && !connected_.empty();
    const Connected& of = foreign ? connected_[which / 16 % connected_.size()] : on;
    if (of.memory.empty() || which == 255) return reinterpret_cast<xfer_gd2fs_iomem*>(which);
    return of.memory[which % of.memory.size()];
  }
  void forget(Connected& on) {
    xfer_gd2fs_iomem* const iomem = memoryOf(on);
    const int result = xfer_gd2fs_dereg_iomem(on.ctx, iomem);
    require(result == 0 || result == -EBUSY || result == -EINVAL || result == -EBADF);
  }
  void drain(const Connected& on, int timeoutMs) {
    const int result = xfer_gd2fs_drain(on.ctx, memoryOf(on), timeoutMs);
    require(result == 0 || result == -EINVAL || result == -EBADF ||
            (result == -ETIMEDOUT && timeoutMs == 0));
  }
  void noteSubmission(Connected& on, std::unique_ptr<Asked> asked, ssize_t result) {
    require(result <= 0);
    require(!on.closed || result == -EBADF || result == -EINVAL);
    if (result != 0) return;
    ++on.inFlight;
    asked_.push_back(std::move(asked));
  }
  void stat(Connected& on) {
    auto asked = std::make_unique<Asked>();
    const std::string at = path();
    const int result = xfer_gd2fs_fstat(on.ctx, asked.get(), at.c_str(), &asked->st);
    noteSubmission(on, std::move(asked), result);
  }
  void list(Connected& on) {
    auto asked = std::make_unique<Asked>();
    const std::string at = path(), after = input_.text();
    const auto most = static_cast<std::uint32_t>(input_.number() % (asked->entries.size() + 1));
    const int result = xfer_gd2fs_list(on.ctx, asked.get(), at.c_str(), after.c_str(),
                                       asked->entries.data(), most);
    noteSubmission(on, std::move(asked), result);
  }
  void advise(Connected& on) {
    auto asked = std::make_unique<Asked>();
    const std::string at = path();
    const int advice = static_cast<int>(input_.number() % 3) - 1;
    const int scope = static_cast<int>(input_.number() % 3) - 1;
    const int result = xfer_gd2fs_advise(on.ctx, asked.get(), at.c_str(), advice, scope);
    noteSubmission(on, std::move(asked), result);
  }
  void read(Connected& on) {
    auto asked = std::make_unique<Asked>();
    asked->reads = true;
    const std::string at = path();
    asked->offset = input_.number() % 4 == 0 ? input_.number(8) : input_.number(3);
    const std::size_t count = input_.number() % 8;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t from = input_.number(2), size = input_.number(2);
      asked->sges.push_back({memory_.data() + from, size, memoryOf(on)});
    }
    const std::uint64_t flags = input_.number();
    const ssize_t result =
        xfer_gd2fs_preadv(on.ctx, asked.get(), at.c_str(), asked->offset, asked->sges.data(),
                          static_cast<std::uint16_t>(count), flags == 255 ? 1 : 0);
    asked->ofFile = at == kFile;
    noteSubmission(on, std::move(asked), result);
  }
  void take(Connected& on, int timeoutMs) {
    std::array<xfer_gd2fs_completion, 2> done{};
    if (on.inFlight == 0 && !on.closed) timeoutMs = 0;
    const int count = xfer_gd2fs_wait(on.ctx, done.data(), done.size(), timeoutMs);
    require(count >= 0 || count == -EBADF);
    require(count != -EBADF || on.inFlight == 0);
    for (int i = 0; i < count; ++i) {
      auto& asked = *static_cast<Asked*>(done[static_cast<std::size_t>(i)].id);
      require(!std::exchange(asked.ended, true));
      asked.done = done[static_cast<std::size_t>(i)];
      require(on.inFlight-- != 0);
    }
  }
  void end(Connected& on) {
    xfer_gd2fs_close(on.ctx);
    on.closed = true;
    while (on.inFlight != 0) take(on, -1);
    xfer_gd2fs_completion none{};
    require(xfer_gd2fs_wait(on.ctx, &none, 1, -1) == -EBADF);
  }
  // When nothing is in flight.
  void check() {
    std::vector<std::uint32_t> writers(kMemoryBytes);
    for (const auto& asked : asked_)
      if (asked->reads) forEachByte(*asked, [&](std::size_t at, std::uint64_t) { ++writers[at]; });
    for (const auto& asked : asked_) {
      require(asked->ended);
      if (!asked->ofFile || asked->done.status != 0) continue;
      forEachByte(*asked, [&](std::size_t at, std::uint64_t from) {
        if (writers[at] == 1 && from < asked->offset + asked->done.value)
          require(memory_[at] == served().expected[from]);
      });
    }
    for (std::size_t at = 0; at < kMemoryBytes; ++at)
      require(writers[at] != 0 || memory_[at] == kUntouched);
  }
  template <class Do>
  void forEachByte(const Asked& asked, Do act) {
    std::uint64_t from = asked.offset;
    for (const xfer_gd2fs_sge& sge : asked.sges) {
      const auto first = static_cast<std::size_t>(static_cast<char*>(sge.addr) - memory_.data());
      for (std::size_t i = 0; i < sge.len; ++i) act(first + i, from++);
    }
  }

  Input input_;
  std::vector<char> memory_;
  std::vector<Connected> connected_;
  std::vector<std::unique_ptr<Asked>> asked_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Program({data, size}).run();
  return 0;
}
