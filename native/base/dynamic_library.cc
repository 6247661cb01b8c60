#include "base/dynamic_library.h"

#include <dlfcn.h>

namespace hearth {

Result<DynamicLibrary> DynamicLibrary::open(const std::string& name) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return DynamicLibrary(name, handle);
  const char* reason = dlerror();
  const std::string message = reason == nullptr ? name + " cannot be loaded" : reason;
  // dlerror has no codes; for an absent file it begins with the name that was asked for.
  const bool absent = message.starts_with(name + ": cannot open shared object file");
  return Error{absent ? ErrorCode::kNotFound : ErrorCode::kUnsupported, message};
}

DynamicLibrary::~DynamicLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

Result<void*> DynamicLibrary::find(const char* symbol) const {
  void* address = dlsym(handle_, symbol);
  if (address != nullptr) return address;
  return Error{ErrorCode::kUnsupported, name_ + " does not export " + symbol};
}

}  // namespace hearth
