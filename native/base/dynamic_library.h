// A shared library loaded at run time.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace hearth {

// Movable owner of one dlopen. Functions taken from it must not be called after its end.
class DynamicLibrary {
 public:
  // `name` as dlopen takes it. kNotFound when there is no such file, kUnsupported when it cannot be
  // loaded (a dependency is missing, another architecture); the message is dlerror's.
  [[nodiscard]] static Result<DynamicLibrary> open(const std::string& name);
  DynamicLibrary(DynamicLibrary&& other) noexcept
      : name_(std::move(other.name_)), handle_(std::exchange(other.handle_, nullptr)) {}
  DynamicLibrary& operator=(DynamicLibrary&&) = delete;
  ~DynamicLibrary();

  // Leaves the library in the process for good. A driver's library goes on in threads and exit
  // handlers of its own, so it must not be unloaded once it has been called.
  void keepLoaded() { handle_ = nullptr; }

  // Only before keepLoaded(). Sets `function` to the symbol's address; kUnsupported, with both
  // names, when it is not exported.
  template <class Function>
  [[nodiscard]] Status load(const char* symbol, Function*& function) const {
    Result<void*> address = find(symbol);
    if (!address.ok()) return address.error();
    function = reinterpret_cast<Function*>(*address);
    return {};
  }

 private:
  DynamicLibrary(std::string name, void* handle) : name_(std::move(name)), handle_(handle) {}
  [[nodiscard]] Result<void*> find(const char* symbol) const;

  std::string name_;
  void* handle_;
};

}  // namespace hearth
