// Which ETags of S3 are made of the bytes of the object: the MD5 of them, or of the MD5s of its
// parts, and how many these are (AWS: Checking object integrity, "ETag values"). Pure: any thread.
#pragma once

#include <string_view>

namespace hearth {

// `validator`: as OriginExpectation's. Some servers have one tag for all files that they did not
// write themselves (MinIO: zeros), and tags of another form say nothing of the bytes.
[[nodiscard]] bool isTagOfBytes(std::string_view validator);

// git:<blob id>, which is a digest of all bytes and is compared wherever they are read.
[[nodiscard]] bool isGitBlobId(std::string_view validator);

}  // namespace hearth
