// For tests: an agent that is a process of its own (hearth_gd2fs_agent), to be killed.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "engine/testing_cluster.h"

namespace hearth::testing_client {

// Files that agents of several processes serve: a manifest and its origin's folder, beside their
// caches.
class SharedOrigin {
 public:
  void add(const std::string& name, std::size_t size) { origin_.add(name, size); }
  // When all files were added.
  void write() {
    const std::vector<std::byte> bytes = origin_.manifest();
    std::ofstream(manifest(), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  [[nodiscard]] std::string bytesOf(const std::string& name) const { return origin_.bytesOf(name); }
  [[nodiscard]] std::string manifest() const { return folder_.path("manifest"); }
  [[nodiscard]] const std::string& files() const { return origin_.folder(); }
  // Of the agent with that name; made where it is missing.
  [[nodiscard]] std::string cacheOf(const std::string& name) const {
    std::filesystem::create_directories(folder_.path(name));
    return folder_.path(name);
  }

 private:
  testing_cluster::TemporaryFolder folder_;
  testing_cluster::Origin origin_;
};

class AgentProcess {
 public:
  // `host`: of the loopback, where no other agent listens: its port stays free while it is away.
  AgentProcess(const SharedOrigin& origin, std::string name, std::string host)
      : origin_(origin), name_(std::move(name)), host_(std::move(host)) {
    start();
  }
  ~AgentProcess() { kill(); }
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;

  // Again, on the port and with the cache that it had.
  void start() {
    ++incarnation_;
    std::array<int, 2> in{}, out{};
    ASSERT_EQ(pipe2(in.data(), O_CLOEXEC), 0);
    ASSERT_EQ(pipe2(out.data(), O_CLOEXEC), 0);
    const std::string cache = origin_.cacheOf(name_);
    const std::vector<std::string> words{
        HEARTH_GD2FS_AGENT,    name_, std::to_string(incarnation_), host_,
        std::to_string(port_), cache, origin_.manifest(),           origin_.files()};
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    // Its temporary folders, which it cannot remove when it is killed, lie in ours.
    const std::string temporary = "TMPDIR=" + cache;
    std::array<char*, 2> environment{const_cast<char*>(temporary.c_str()), nullptr};
    child_ = fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      execve(arguments[0], arguments.data(), environment.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    input_ = in[1];
    FILE* const said = fdopen(out[0], "r");
    std::array<char, 64> host{};
    ASSERT_EQ(std::fscanf(said, "%63s %hu", host.data(), &port_), 2) << "the agent did not start";
    std::fclose(said);
  }
  // At once, as if its node had lost power.
  void kill() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    waitpid(std::exchange(child_, -1), nullptr, 0);
    close(input_);
  }
  void join(const std::string& cluster) {
    const std::string line = cluster + "\n";
    ASSERT_EQ(write(input_, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  }
  [[nodiscard]] bool runs() const { return child_ > 0; }
  [[nodiscard]] std::string member() const {
    return name_ + " " + std::to_string(incarnation_) + " " + host_ + " " + std::to_string(port_);
  }
  [[nodiscard]] std::string address() const {
    return "gd2fs://" + host_ + ":" + std::to_string(port_);
  }

 private:
  const SharedOrigin& origin_;
  const std::string name_, host_;
  int incarnation_ = 0;
  std::uint16_t port_ = 0;
  pid_t child_ = -1;
  int input_ = -1;
};

}  // namespace hearth::testing_client
