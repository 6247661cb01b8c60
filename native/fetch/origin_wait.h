// The wait of one read, or of one run of a warm job, for an origin that is away: it asks again,
// with growing pauses, until the origin answers or a bound is over. An origin that has answered
// with what is final (the object is gone, changed or forbidden) is not waited for. On a shard's
// thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "dataset/dataset.h"
#include "fetch/fetch_ports.h"
#include "origin/retry_policy.h"

namespace hearth {

// False: no reader waits for the answer any more. Null: always true.
using StillWanted = std::function<bool()>;

class OriginWait {
 public:
  // `ports` must remain live while this object is used.
  OriginWait(const FetchPorts& ports, std::shared_ptr<Dataset> dataset)
      : ports_(ports), dataset_(std::move(dataset)) {}
  ~OriginWait();
  OriginWait(const OriginWait&) = delete;
  OriginWait& operator=(const OriginWait&) = delete;

  // After the bytes could not be got for `failure`. True, after a pause: the caller asks for them
  // again. False, at once: they will not come, `bound` has passed since the first failure, or they
  // are not `wanted`.
  [[nodiscard]] Task<bool> again(Error failure, Clock::duration bound, StillWanted wanted);

 private:
  void begin(const Error& failure);

  const FetchPorts& ports_;
  const std::shared_ptr<Dataset> dataset_;
  std::optional<Clock::time_point> since_;  // of the first failure
  int failures_ = 0;
  std::unique_ptr<RetryPolicy> pauses_;  // once one failed
};

}  // namespace hearth
