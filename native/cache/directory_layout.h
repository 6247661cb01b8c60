// Making and checking the folders of a cache directory. Used on the directory's home reactor.
#pragma once

#include <memory>
#include <string>

#include "base/content_key.h"
#include "files/file_system.h"

namespace hearth {

// "ab" of objects/ab for the first byte of a key.
[[nodiscard]] std::string folderName(std::size_t firstByte);

// Makes `path` (with its parents) and the folders in it, where missing, and syncs what it made.
[[nodiscard]] Task<Status> makeLayout(FileSystem& files, std::string path);

// Locks `path`/lock for this process until the File is closed. kInUse names the process that has
// it.
[[nodiscard]] Task<Result<std::unique_ptr<File>>> lockDirectory(FileSystem& files,
                                                                std::string path);

// Tries hard links, sparse files and memory mappings. kUnsupported says what is missing.
[[nodiscard]] Task<Status> checkFeatures(FileSystem& files, std::string path);

// Removes a tree, whatever the modes of its directories; a tree that is not there is no error.
[[nodiscard]] Task<Status> removeTree(FileSystem& files, std::string path);

// Writes `bytes` to `folder`/`name` so that after a crash the file is whole or as it was: aside,
// synced, renamed, folder synced. The name aside begins with ".tmp-".
[[nodiscard]] Task<Status> replaceFile(FileSystem& files, std::string folder, std::string name,
                                       std::vector<std::byte> bytes);

// A whole small file. kInvalidArgument when it is longer than `mostBytes`.
[[nodiscard]] Task<Result<std::vector<std::byte>>> readFile(FileSystem& files, std::string path,
                                                            std::size_t mostBytes);

}  // namespace hearth
