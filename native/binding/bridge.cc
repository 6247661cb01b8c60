#include "binding/bridge.h"

namespace hearth {

Bridge::Bridge(Napi::Env env)
    : function_(Napi::ThreadSafeFunction::New(
          env, Napi::Function::New(env, [](const Napi::CallbackInfo&) {}), "hearth", 0, 1)),
      env_(env) {
  function_.Unref(env_);
}

void Bridge::post(std::function<void(Napi::Env)> work) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  auto* const call = new std::function<void(Napi::Env)>(std::move(work));
  const napi_status status = function_.NonBlockingCall(
      call, [](Napi::Env env, Napi::Function, std::function<void(Napi::Env)>* pending) {
        const std::unique_ptr<std::function<void(Napi::Env)>> owned(pending);
        // Without an environment the process is ending; no listener is left.
        if (static_cast<napi_env>(env) == nullptr) return;
        const Napi::HandleScope scope(env);
        try {
          (*owned)(env);
        } catch (const Napi::Error& error) {
          // A listener's error is the process's to see; an environment that is being terminated
          // runs no JavaScript and swallows it.
          error.ThrowAsJavaScriptException();
        }
      });
  if (status != napi_ok) delete call;
}

void Bridge::hold() {
  if (++holds_ == 1) function_.Ref(env_);
}

void Bridge::release() {
  if (--holds_ == 0 && !closed_) function_.Unref(env_);
}

void Bridge::close() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(closed_, true)) return;
  function_.Release();
}

}  // namespace hearth
