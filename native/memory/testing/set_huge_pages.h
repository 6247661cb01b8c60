// Sets huge pages apart for a test, and gives them back after it. Tests that set them apart or
// count them run one after the other, whatever process they are in.
#pragma once

#include <fcntl.h>
#include <sys/file.h>

#include <cstddef>
#include <fstream>
#include <string>

#include "base/owned_fd.h"

namespace hearth::testing_memory {

class SetHugePages {
 public:
  // `kind`: "2048kB" or "1048576kB".
  explicit SetHugePages(std::size_t free, const std::string& kind = "2048kB")
      : folder_("/sys/kernel/mm/hugepages/hugepages-" + kind + "/"),
        lock_(::open((folder_ + "nr_hugepages").c_str(), O_RDONLY | O_CLOEXEC)) {
    ::flock(lock_.get(), LOCK_EX);
    before_ = read("nr_hugepages");
    const std::size_t taken = before_ - this->free();
    setAll(taken + free);
    there_ = this->free() == free;
  }
  ~SetHugePages() { setAll(before_); }
  SetHugePages(const SetHugePages&) = delete;
  SetHugePages& operator=(const SetHugePages&) = delete;

  // True when the machine permitted it and had as many pages.
  [[nodiscard]] bool there() const { return there_; }
  [[nodiscard]] std::size_t free() const { return read("free_hugepages"); }
  void setAll(std::size_t pages) const { std::ofstream(folder_ + "nr_hugepages") << pages; }

 private:
  [[nodiscard]] std::size_t read(const std::string& name) const {
    std::ifstream file(folder_ + name);
    std::size_t pages = 0;
    file >> pages;
    return pages;
  }

  const std::string folder_;
  const OwnedFd lock_;
  std::size_t before_ = 0;
  bool there_ = false;
};

}  // namespace hearth::testing_memory
