// One reactor, one origin client and one fetch after another. Test support.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "origin/origin_client.h"

namespace hearth {

class OriginFixture : public testing::TestWithParam<Reactor::Backend> {
 public:
  // For INSTANTIATE_TEST_SUITE_P.
  static std::string backendName(const testing::TestParamInfo<Reactor::Backend>& backend) {
    return backend.param == Reactor::Backend::kEpoll ? "epoll" : "io_uring";
  }

 protected:
  void SetUp() override;
  void TearDown() override;

  // Before the first fetch.
  OriginOptions options;

  struct Answer {
    Status status;
    std::string bytes;
    std::vector<std::size_t> filled;
  };
  // Reads [offset, offset + sum of `pieces`), giving up with a failure after a minute.
  Answer fetch(Location location, OriginExpectation expectation, std::uint64_t offset,
               std::vector<std::size_t> pieces);
  // A location of this URL without anything else.
  static Location at(std::string url);

  OriginClient& client();
  Reactor& reactor() { return *reactor_; }
  // Runs a task on the reactor with the same limit.
  template <class T>
  T run(Task<T> task) {
    Reactor::Timer limit(*reactor_);
    limit.start(Clock::now() + std::chrono::minutes(6), [] {
      FAIL() << "nothing ended in time";
      std::abort();
    });
    return reactor_->runUntilComplete(std::move(task));
  }

 private:
  std::unique_ptr<Reactor> reactor_;
  std::unique_ptr<OriginClient> client_;
};

}  // namespace hearth
