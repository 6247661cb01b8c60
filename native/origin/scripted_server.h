// An HTTP server for tests that does what its script says, however wrong: one thread a connection,
// raw sockets, optionally TLS. Test support.
#pragma once

#include <openssl/ssl.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace hearth {

struct ScriptedRequest {
  std::string target;                          // "/path?query"
  std::map<std::string, std::string> headers;  // names in lower case
  int number = 0;                              // of all requests to this server, from 1

  // Of "Range: bytes=a-b".
  [[nodiscard]] std::optional<std::pair<std::uint64_t, std::uint64_t>> range() const;
};

class ScriptedConnection {
 public:
  ScriptedConnection(int fd, SSL* tls, const std::atomic<bool>& stopping)
      : fd_(fd), tls_(tls), stopping_(stopping) {}
  bool send(std::string_view bytes);
  // Closes with RST instead of FIN when the script returns.
  void resetOnClose();
  // Returns early when the server stops.
  void sleep(std::chrono::milliseconds time);

 private:
  friend class ScriptedServer;
  std::size_t receive(char* into, std::size_t size);
  int fd_;
  SSL* tls_;
  const std::atomic<bool>& stopping_;
};

class ScriptedServer {
 public:
  // Answers one request; false closes the connection.
  using Script = std::function<bool(const ScriptedRequest&, ScriptedConnection&)>;

  // Listens on 127.0.0.1, a free port. `tls`: with this context, which outlives the server.
  explicit ScriptedServer(Script script, SSL_CTX* tls = nullptr);
  ~ScriptedServer();

  [[nodiscard]] std::string url(std::string_view path = "/object") const;
  [[nodiscard]] std::vector<ScriptedRequest> requests() const;
  [[nodiscard]] int connections() const { return connections_; }
  [[nodiscard]] int mostAtOnce() const { return mostAtOnce_; }

 private:
  void acceptLoop();
  void serve(int fd);

  const Script script_;
  SSL_CTX* const tls_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<int> connections_{0}, now_{0}, mostAtOnce_{0};
  mutable std::mutex mutex_;
  std::vector<ScriptedRequest> requests_;
  std::list<int> open_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

// `size` bytes that differ at every offset from those around.
[[nodiscard]] std::string patternedObject(std::size_t size);

// A correct answer to a request for `object`: 206 for a range, with `extraHeaders` ("Name:
// value\r\n"...).
bool serveObject(const std::string& object, const ScriptedRequest& request, ScriptedConnection& to,
                 const std::string& extraHeaders = {});

// "HTTP/1.1 <status>" with a body and its length.
bool answer(ScriptedConnection& to, const std::string& status, const std::string& headers = {},
            const std::string& body = {});

}  // namespace hearth
