// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Memory shared by the ranks of a communicator, if all of them can. It is anonymous: one rank creates it, the
/// others open it through that rank's /proc folder, and it disappears with the last process, however that ends.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <shardwise/comm/mpi.hpp>

namespace shardwise::detail {

/// A nonce that identifies the segment; not cryptographic.
inline std::uint64_t random_number() {
  std::uint64_t number = 0;
  if (::getentropy(&number, sizeof(number)) != 0) number = static_cast<std::uint64_t>(1e9 * MPI_Wtime());
  return number;
}

/// Move-only; may be empty.
class SharedSegment {
 public:
  SharedSegment() = default;

  /// `bytes` of zeros, the same memory on all ranks; or empty on all ranks, if they cannot see each other's
  /// processes or memory is short. Collective.
  static SharedSegment make(MPI_Comm comm, std::size_t bytes) {
    const int rank = rank_in(comm);
    const std::size_t length = bytes + proof_bytes;
    File made;
    SharedSegment segment;
    std::uint64_t says[3] = {};  // process id, file descriptor, nonce
    if (rank == 0) {
      made.descriptor = ::memfd_create("shardwise", MFD_CLOEXEC);
      if (made.descriptor >= 0 && ::ftruncate(made.descriptor, static_cast<off_t>(length)) == 0)
        segment = SharedSegment(made.descriptor, length);
      if (segment) {
        says[0] = static_cast<std::uint64_t>(::getpid());
        says[1] = static_cast<std::uint64_t>(made.descriptor);
        says[2] = random_number();
        segment.proof() = says[2];
      }
    }
    check_mpi(MPI_Bcast(says, 3, MPI_UINT64_T, 0, comm), "MPI_Bcast");
    if (rank != 0 && says[0] != 0) {
      const std::string path = "/proc/" + std::to_string(says[0]) + "/fd/" + std::to_string(says[1]);
      File file{::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)};
      struct stat status {};
      // In another container this path may be any file of a different process.
      if (file.descriptor >= 0 && ::fstat(file.descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
          status.st_size == static_cast<off_t>(length))
        segment = SharedSegment(file.descriptor, length);
    }
    int here = segment && segment.proof() == says[2] ? 1 : 0;
    int everywhere = 0;
    check_mpi(MPI_Allreduce(&here, &everywhere, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");
    return everywhere != 0 ? std::move(segment) : SharedSegment();
  }

  SharedSegment(SharedSegment&& other) noexcept { swap(other); }
  SharedSegment& operator=(SharedSegment&& other) noexcept {
    swap(other);
    return *this;
  }
  ~SharedSegment() {
    if (memory_) ::munmap(memory_, length_);
  }

  explicit operator bool() const { return memory_ != nullptr; }
  /// Begins at a page boundary.
  char* data() const { return memory_ + proof_bytes; }

 private:
  static constexpr std::size_t proof_bytes = 4096;

  struct File {
    int descriptor = -1;
    ~File() {
      if (descriptor >= 0) ::close(descriptor);
    }
  };

  SharedSegment(int descriptor, std::size_t length) : length_(length) {
    void* mapped = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (mapped != MAP_FAILED) memory_ = static_cast<char*>(mapped);
  }
  std::uint64_t& proof() const { return *reinterpret_cast<std::uint64_t*>(memory_); }
  void swap(SharedSegment& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(length_, other.length_);
  }

  char* memory_ = nullptr;
  std::size_t length_ = 0;
};

}  // namespace shardwise::detail
