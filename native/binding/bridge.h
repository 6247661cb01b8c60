// The one way from native threads to JavaScript: a single thread-safe function for the whole
// environment. Closed by the environment's clean-up hook; what comes afterwards is dropped.
#pragma once

#include <napi.h>

#include <functional>
#include <memory>
#include <mutex>

namespace hearth {

class Bridge {
 public:
  // On the JavaScript thread.
  explicit Bridge(Napi::Env env);
  ~Bridge() = default;
  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;

  // Any thread: runs `work` on the JavaScript thread, in order. Dropped after close().
  void post(std::function<void(Napi::Env)> work);

  // On the JavaScript thread: while held more often than released, the process stays alive.
  void hold();
  void release();

  // On the JavaScript thread.
  void close();

 private:
  std::mutex mutex_;
  Napi::ThreadSafeFunction function_;
  Napi::Env env_;
  int holds_ = 0;
  bool closed_ = false;
};

}  // namespace hearth
