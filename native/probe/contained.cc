#include "probe/contained.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>

#include "base/clock.h"

namespace hearth {
namespace {

using std::chrono::milliseconds;

// How long a killed child may take to be collected before it is left to init.
constexpr milliseconds kCollectTime{400};

// Frames on the pipe: kind, then strings (32-bit length in host order, bytes). Both ends are the
// same program. 'S' stage; 'P' name, status as one character, detail, advice; 'E' end, complete.
void putString(std::string& frame, const std::string& text) {
  const auto length = static_cast<std::uint32_t>(text.size());
  frame.append(reinterpret_cast<const char*>(&length), sizeof length);
  frame += text;
}

bool takeString(const std::string& data, std::size_t& at, std::string& text) {
  std::uint32_t length = 0;
  if (data.size() - at < sizeof length) return false;
  std::memcpy(&length, data.data() + at, sizeof length);
  at += sizeof length;
  if (data.size() - at < length) return false;
  text = data.substr(at, length);
  at += length;
  return true;
}

void writeAll(int fd, const std::string& data) {
  for (std::size_t at = 0; at < data.size();) {
    const ssize_t count = write(fd, data.data() + at, data.size() - at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) _exit(1);  // the parent is gone
    at += static_cast<std::size_t>(count);
  }
}

struct Answer {
  std::string stage;
  std::vector<Probe> probes;
  bool complete = false;
};

// A torn last frame is ignored: the child was lost while it wrote.
Answer decode(const std::string& data) {
  Answer answer;
  for (std::size_t at = 0; at < data.size();) {
    const char kind = data[at++];
    if (kind == 'S') {
      std::string stage;
      if (!takeString(data, at, stage)) break;
      answer.stage = stage;
    } else if (kind == 'P') {
      Probe probe;
      std::string status;
      if (!takeString(data, at, probe.name) || !takeString(data, at, status) ||
          !takeString(data, at, probe.detail) || !takeString(data, at, probe.advice)) {
        break;
      }
      probe.status = static_cast<ProbeStatus>(status[0] - '0');
      answer.probes.push_back(std::move(probe));
    } else {
      answer.complete = kind == 'E';
      break;
    }
  }
  return answer;
}

// noexcept: a driver that throws ends here by SIGABRT and is reported as the crash it is.
[[noreturn]] void runChild(const ContainedTask& task, int fd, pid_t parent) noexcept {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null >= 0) {
    for (int stream = 0; stream < 3; ++stream) dup2(null, stream);
  }
  const Stage stage = [fd](const std::string& what) {
    std::string frame = "S";
    putString(frame, what);
    writeAll(fd, frame);
  };
  std::string frames;
  for (const Probe& probe : task.run(stage)) {
    frames += 'P';
    putString(frames, probe.name);
    putString(frames, std::string(1, static_cast<char>('0' + static_cast<int>(probe.status))));
    putString(frames, probe.detail);
    putString(frames, probe.advice);
  }
  writeAll(fd, frames + 'E');
  _exit(0);
}

struct Child {
  pid_t pid = -1;
  int fd = -1;
  std::string data;
  std::string failure;  // why there is no child
};

Child start(const ContainedTask& task) {
  Child child;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    child.failure = std::string("no pipe could be made: ") + strerror(errno);
    return child;
  }
  const pid_t parent = getpid();
  child.pid = fork();
  if (child.pid == 0) {
    close(ends[0]);
    runChild(task, ends[1], parent);
  }
  const int error = errno;
  close(ends[1]);
  if (child.pid < 0) {
    close(ends[0]);
    child.failure = std::string("no process could be made: ") + strerror(error);
    return child;
  }
  child.fd = ends[0];
  return child;
}

void finishReading(Child& child) {
  close(child.fd);
  child.fd = -1;
}

// Reads what the children send until all have closed their pipes or the deadline is over.
void collect(std::vector<Child>& children, Clock::time_point deadline) {
  for (;;) {
    std::vector<pollfd> waits;
    std::vector<Child*> owners;
    for (Child& child : children) {
      if (child.fd < 0) continue;
      waits.push_back({child.fd, POLLIN, 0});
      owners.push_back(&child);
    }
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
    if (waits.empty() || left <= 0) return;
    if (poll(waits.data(), waits.size(), static_cast<int>(left)) < 0 && errno != EINTR) return;
    for (std::size_t index = 0; index < waits.size(); ++index) {
      if (waits[index].revents == 0) continue;
      char buffer[4096];
      const ssize_t count = read(waits[index].fd, buffer, sizeof buffer);
      if (count > 0) {
        owners[index]->data.append(buffer, static_cast<std::size_t>(count));
        // A grandchild may keep the pipe open; the end mark is what counts.
        if (decode(owners[index]->data).complete) finishReading(*owners[index]);
      } else if (count == 0 || errno != EINTR) {
        finishReading(*owners[index]);
      }
    }
  }
}

struct Exit {
  bool known = false;
  int status = 0;
};

// Kills what is left of the child's process group and collects the child.
Exit bury(const Child& child, bool hung, Clock::time_point deadline) {
  if (hung) kill(-child.pid, SIGKILL);
  for (;;) {
    Exit exit;
    const pid_t got = waitpid(child.pid, &exit.status, WNOHANG);
    if (got == child.pid) {
      exit.known = true;
      kill(-child.pid, SIGKILL);  // grandchildren; the group's number stays theirs while they live
      return exit;
    }
    if ((got < 0 && errno != EINTR) || Clock::now() >= deadline) return exit;
    std::this_thread::sleep_for(milliseconds(2));
  }
}

Probe lostRow(const ContainedTask& task, const Answer& answer, bool hung, const Exit& exit,
              milliseconds deadline) {
  const std::string where = answer.stage.empty() ? "" : " in " + answer.stage;
  if (hung) {
    const std::string state = exit.known ? "" : " and cannot be killed (uninterruptible sleep)";
    return {task.name, ProbeStatus::kMissing,
            "no answer" + where + " within " + std::to_string(deadline.count()) + " ms" + state,
            "The driver or device behind it hangs: look at `dmesg`, then reload the driver or "
            "restart the machine."};
  }
  std::string how = "the child process was lost";
  if (exit.known && WIFSIGNALED(exit.status)) {
    const char* name = sigabbrev_np(WTERMSIG(exit.status));
    how = std::string("crashed with SIG") + (name == nullptr ? "?" : name);
  } else if (exit.known) {
    how = "ended the process with status " + std::to_string(WEXITSTATUS(exit.status));
  }
  return {task.name, ProbeStatus::kMissing, how + where,
          "The library or driver behind it is broken: reinstall it in the version that belongs to "
          "the loaded kernel module."};
}

}  // namespace

std::vector<Probe> runContained(const std::vector<ContainedTask>& tasks, milliseconds deadline) {
  const Clock::time_point end = Clock::now() + deadline;
  std::vector<Child> children;
  for (const ContainedTask& task : tasks) children.push_back(start(task));
  collect(children, end);

  std::vector<Probe> rows;
  const Clock::time_point burial = Clock::now() + kCollectTime;
  // All first: a child must not get more time because another one was slow to die.
  std::vector<bool> hung;
  for (const Child& child : children) {
    hung.push_back(child.pid > 0 && child.fd >= 0);
    if (hung.back()) kill(-child.pid, SIGKILL);
  }
  for (std::size_t index = 0; index < tasks.size(); ++index) {
    Child& child = children[index];
    if (child.pid < 0) {
      rows.push_back({tasks[index].name, ProbeStatus::kMissing, child.failure,
                      "Free some memory, processes or file descriptors and try again."});
      continue;
    }
    const Exit exit = bury(child, hung[index], burial);
    if (child.fd >= 0) finishReading(child);
    const Answer answer = decode(child.data);
    rows.insert(rows.end(), answer.probes.begin(), answer.probes.end());
    if (!answer.complete) {
      rows.push_back(lostRow(tasks[index], answer, hung[index], exit, deadline));
    }
  }
  return rows;
}

}  // namespace hearth
