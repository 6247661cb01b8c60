// Safetensors files for tests, well formed or not, in a folder that goes with its object.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace hearth {

class SafetensorsFolder {
 public:
  SafetensorsFolder() {
    std::string pattern = testing::TempDir() + "hearth-loader-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  SafetensorsFolder(const SafetensorsFolder&) = delete;
  SafetensorsFolder& operator=(const SafetensorsFolder&) = delete;
  ~SafetensorsFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  // A file of the header's length, the header and the data; its path.
  [[nodiscard]] std::string write(const std::string& name, std::string_view header,
                                  std::string_view data) const {
    std::uint64_t length = header.size();
    std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
    bytes.append(header).append(data);
    return writeBytes(name, bytes);
  }
  [[nodiscard]] std::string writeBytes(const std::string& name, std::string_view bytes) const {
    const std::string path = path_ + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Bytes that differ from place to place and from seed to seed.
inline std::string patternBytes(std::size_t size, std::uint32_t seed) {
  std::string bytes(size, '\0');
  std::uint32_t state = seed * 2654435761U + 1;
  for (char& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

// One member of a header: a tensor of bytes.
inline std::string byteTensor(std::string_view name, std::size_t begin, std::size_t end) {
  return "\"" + std::string(name) + R"(":{"dtype":"U8","shape":[)" + std::to_string(end - begin) +
         R"(],"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

}  // namespace hearth
