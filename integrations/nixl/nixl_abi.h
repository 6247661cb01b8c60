// The binary interface of a NIXL back end, version 1: what libnixl of the wheels 1.0.1 to 1.5.1
// calls. NIXL's wheels carry no headers for back ends, so this file describes the layout: the
// order of virtual functions and of the members that libnixl reads, which must not change. Needs
// libstdc++ with its C++11 strings.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hearth::nixl {

inline constexpr int kPluginApiVersion = 1;

enum class MemoryKind : int { kDram, kVram, kBlock, kObject, kFile };
enum class Operation : int { kRead, kWrite };
enum class Status : int {
  kInProgress = 1,
  kSuccess = 0,
  kInvalidParameter = -2,
  kBackendError = -3,
  kNotFound = -4,
  kNotAllowed = -6,
  kNotSupported = -9,
};

using Parameters = std::unordered_map<std::string, std::string>;

// A registration, which the back end derives from. libnixl keeps it until unloadMetadata().
struct Metadata {
  bool isPrivate = true;
  virtual ~Metadata() = default;
};
// A transfer, which the back end derives from. libnixl keeps it until releaseRequest().
struct RequestHandle {
  virtual ~RequestHandle() = default;
};

// Memory, or a part of an object or file, of a transfer.
struct Descriptor {
  std::uintptr_t address;  // of an object or file: the offset
  std::size_t length;
  std::uint64_t device;
  Metadata* metadata;
};
// Memory or an object to register, or to ask for.
struct BlobDescriptor {
  std::uintptr_t address;
  std::size_t length;
  std::uint64_t device;
  std::string info;  // of an object: its key
};
// libnixl's own; read through references alone.
template <class T>
struct DescriptorList {
  void* virtualFunctions;
  MemoryKind kind;
  std::vector<T> items;
};
using TransferList = DescriptorList<Descriptor>;
using QueryList = DescriptorList<BlobDescriptor>;

struct InitParameters {
  std::string agent;
  std::string type;
  Parameters* parameters;
  bool progressThread;
  std::uint64_t progressDelay;
  int synchronisation;
  bool telemetry;
};
struct OptionalArguments {
  std::string notification;
  bool hasNotification;
  std::string custom;
};
using Notifications = std::vector<std::pair<std::string, std::string>>;

class BackendEngine {
  std::string type_;
  Parameters parameters_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> telemetry_;
  std::mutex telemetryMutex_;

 protected:
  bool failed = false;  // the constructor's: libnixl then deletes the engine
  const std::string agent;
  const bool telemetry;

 public:
  explicit BackendEngine(const InitParameters& init)
      : type_(init.type),
        parameters_(*init.parameters),
        agent(init.agent),
        telemetry(init.telemetry) {}
  BackendEngine(const BackendEngine&) = delete;
  BackendEngine& operator=(const BackendEngine&) = delete;
  [[nodiscard]] const Parameters& parameters() const { return parameters_; }
  [[nodiscard]] bool hasFailed() const { return failed; }

  // Slots of the table of virtual functions; 0 and 1 are the destructor's.
  virtual ~BackendEngine() = default;
  virtual bool supportsRemote() const = 0;                                                  // 2
  virtual bool supportsLocal() const = 0;                                                   // 3
  virtual bool supportsNotifications() const = 0;                                           // 4
  virtual std::vector<MemoryKind> memoryKinds() const = 0;                                  // 5
  virtual Status registerMemory(const BlobDescriptor&, const MemoryKind&, Metadata*&) = 0;  // 6
  virtual Status deregisterMemory(Metadata*) = 0;                                           // 7
  virtual Status connect(const std::string&) = 0;                                           // 8
  virtual Status disconnect(const std::string&) = 0;                                        // 9
  virtual Status unloadMetadata(Metadata*) = 0;                                             // 10
  virtual Status prepareTransfer(const Operation&, const TransferList& local,
                                 const TransferList& remote, const std::string&, RequestHandle*&,
                                 const OptionalArguments*) const = 0;  // 11
  virtual Status postTransfer(const Operation&, const TransferList& local,
                              const TransferList& remote, const std::string&, RequestHandle*&,
                              const OptionalArguments*) const = 0;                         // 12
  virtual Status checkTransfer(RequestHandle*) const = 0;                                  // 13
  virtual Status releaseRequest(RequestHandle*) const = 0;                                 // 14
  virtual Status prepareRemoteView(const void*, void*&, const OptionalArguments*) const {  // 15
    return Status::kNotSupported;
  }
  virtual Status prepareLocalView(const void*, void*&, const OptionalArguments*) const {  // 16
    return Status::kNotSupported;
  }
  virtual void releaseView(void*) const {}                          // 17
  virtual Status publicData(const Metadata*, std::string&) const {  // 18
    return Status::kBackendError;
  }
  virtual Status connectionInfo(std::string&) const { return Status::kBackendError; }  // 19
  virtual Status loadRemoteConnection(const std::string&, const std::string&) {        // 20
    return Status::kBackendError;
  }
  virtual Status loadRemoteMetadata(const BlobDescriptor&, const MemoryKind&, const std::string&,
                                    Metadata*&) {  // 21
    return Status::kBackendError;
  }
  virtual Status loadLocalMetadata(Metadata* registered, Metadata*& loaded) {  // 22
    loaded = registered;
    return Status::kSuccess;
  }
  virtual Status takeNotifications(Notifications&) { return Status::kBackendError; }  // 23
  virtual Status notify(const std::string&, const std::string&) const {               // 24
    return Status::kBackendError;
  }
  virtual Status queryMemory(const QueryList&, std::vector<std::optional<Parameters>>&) const {
    return Status::kNotSupported;  // 25
  }
  virtual Status estimateCost(const Operation&, const TransferList&, const TransferList&,
                              const std::string&, RequestHandle* const&, std::chrono::microseconds&,
                              std::chrono::microseconds&, int&,
                              const void*) const {  // 26
    return Status::kNotSupported;
  }
};

// The result of `extern "C" Plugin* nixl_plugin_init()`; lives as long as the library.
struct Plugin {
  int apiVersion;
  BackendEngine* (*create)(const InitParameters*);
  void (*destroy)(BackendEngine*);
  const char* (*name)();
  const char* (*version)();
  Parameters (*options)();
  std::vector<MemoryKind> (*memoryKinds)();
};

}  // namespace hearth::nixl
