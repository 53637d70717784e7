// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Files whose every failure is a `std::runtime_error` that names the file, the failure and the reason. A file is
/// written under a temporary name and renamed when it is complete, so that no crash leaves half of one.
///
/// ```
/// write_file_atomically("run/config.json", text);
/// ```

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <new>
#include <optional>
#include <random>
#include <system_error>

#include <shardwise/base/activity.hpp>
#include <shardwise/base/bodies.hpp>
#include <shardwise/base/text.hpp>

namespace shardwise {

namespace detail {

using Path = std::filesystem::path;

[[noreturn]] inline void throw_file_error(const Path& path, std::string_view what, int code = errno) {
  fail<std::runtime_error>({path.string(), ": ", what, ": ", std::generic_category().message(code)});
}

}  // namespace detail

/// Returns f(). If it throws an exception other than `std::bad_alloc`, throws an `Error` whose message is "SOURCE: "
/// and that of the exception. `source`: the name of a file, or of a place in it.
template <class Error = std::runtime_error, class F>
auto prefix_errors(const std::string& source, F f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    detail::fail<Error>({source, ": ", error.what()});
  }
}

/// An open file or folder. Sizes and offsets are in bytes. Except where stated, failures are `std::runtime_error`s.
class File {
 public:
  /// `flags` and `mode` are those of open(2).
  File(std::filesystem::path path, int flags, ::mode_t mode = 0666) : path_(std::move(path)) {
    const detail::FileWork here("opens", path_.native());
    do {
      // O_NONBLOCK: a pipe must not keep us waiting; for regular files it changes nothing.
      descriptor_ = ::open(path_.c_str(), flags | O_CLOEXEC | O_NONBLOCK, mode);
    } while (descriptor_ < 0 && errno == EINTR);
    if (descriptor_ < 0)
      detail::throw_file_error(path_, flags & O_CREAT ? "cannot be created" : "cannot be opened");
  }
  File(File&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&&) = delete;
  ~File() {
    if (descriptor_ < 0) return;
    const detail::FileWork here("closes", path_.native());
    ::close(descriptor_);
  }

  /// For calls of the system that are missing here; and the path as it was given.
  int descriptor() const noexcept { return descriptor_; }
  const std::filesystem::path& path() const noexcept { return path_; }

  /// Throws also if it is not a regular file.
  Index size() const {
    struct stat about {};
    if (::fstat(descriptor_, &about) != 0) detail::throw_file_error(path_, "cannot be examined");
    if (!S_ISREG(about.st_mode)) detail::fail<std::runtime_error>({path_.string(), ": not a regular file"});
    return static_cast<Index>(about.st_size);
  }

  /// Reads up to `bytes` bytes from `offset` on. Returns how many there were: fewer at the file's end.
  Index read_some(void* to, Index bytes, Index offset) const {
    return transfer("reads", bytes, offset, "cannot be read", [&](Index done, std::size_t rest, Index at) {
      return ::pread(descriptor_, static_cast<char*>(to) + done, rest, at);
    });
  }
  /// Read or write all bytes from `offset` on; throw if the file or its device ends before.
  void read(void* to, Index bytes, Index offset) const {
    must_be_all(read_some(to, bytes, offset), bytes, offset, "cannot be read");
  }
  void write(std::string_view bytes, Index offset) const {
    const auto write_some = [&](Index done, std::size_t rest, Index at) {
      const auto now = ::pwrite(descriptor_, bytes.data() + done, rest, at);
      const bool must_be_cached = now < 0 && errno == EINVAL && set_direct(false);
      return must_be_cached ? ::pwrite(descriptor_, bytes.data() + done, rest, at) : now;
    };
    const Index done = transfer("writes", std::ssize(bytes), offset, "cannot be written", write_some);
    must_be_all(done, std::ssize(bytes), offset, "cannot be written");
  }

  /// Whether writes pass the system's cache of files by, if file system, memory and sizes allow that; else they do not.
  /// Returns whether that is a change.
  bool set_direct(bool direct) const noexcept {
    const int flags = ::fcntl(descriptor_, F_GETFL), wanted = direct ? flags | O_DIRECT : flags & ~O_DIRECT;
    return flags >= 0 && wanted != flags && ::fcntl(descriptor_, F_SETFL, wanted) == 0;
  }

  /// Takes the lock that a file or folder has, until it is closed or the process ends. Returns whether it has it; if
  /// not, errno is EWOULDBLOCK if another has it, and something else where the file system has no locks.
  bool lock() const noexcept { return ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0; }

  /// Returns when the device has it.
  void sync() const {
    const detail::FileWork here("flushes", path_.native());
    if (::fsync(descriptor_) != 0) detail::throw_file_error(path_, "cannot be flushed to the device");
  }

 private:
  static constexpr Index part = 16 << 20;

  template <class F>
  Index transfer(const char* what, Index bytes, Index offset, std::string_view failure, F call) const {
    Index done = 0;
    while (done < bytes) {
      const detail::FileWork here(what, path_.native());  // a part at a time: each that is done is progress
      const auto now = call(done, static_cast<std::size_t>(std::min(bytes - done, part)), offset + done);
      if (now < 0 && errno == EINTR) continue;
      if (now < 0) detail::throw_file_error(path_, failure);
      if (now == 0) break;
      done += static_cast<Index>(now);
    }
    return done;
  }
  void must_be_all(Index done, Index bytes, Index offset, const char* failure) const {
    if (done == bytes) return;
    detail::fail<std::runtime_error>(
        {path_.string(), ": ", failure, ": it ends at byte ", offset + done, " of ", offset + bytes});
  }

  std::filesystem::path path_;
  int descriptor_ = -1;
};

namespace detail {

/// The folder that a file lies in, as a name that can be opened.
inline Path folder_of(const Path& file) { return file.has_parent_path() ? file.parent_path() : Path("."); }

/// Absolute, without symbolic links, and with a name at its end.
inline Path whole_path(const Path& path) {
  const Path whole = std::filesystem::weakly_canonical(std::filesystem::absolute(path));
  return whole.has_filename() ? whole : whole.parent_path();
}

/// Whether a name that stands in a file is that of a file beside it: no path, and not hidden. A symbolic link is
/// followed, wherever it leads: in Hugging Face's cache every file is one.
inline bool is_plain_name(std::string_view name) {
  constexpr std::string_view ends_or_leads_away("/\0", 2);
  return !name.empty() && !name.starts_with('.') && name.find_first_of(ends_or_leads_away) == name.npos;
}

/// With all that is in it, except files that cannot be removed.
inline void remove_folder(const Path& path) noexcept {
  const FileWork here("removes", path.native());
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

/// Whether a call of the system failed because this file system has no such call, not because of the file or its
/// device.
inline bool is_unsupported(int code) { return code == EINVAL || code == ENOSYS || code == EOPNOTSUPP; }

/// Makes what was renamed or removed in a folder last through a crash of the machine, if the file system can do that.
inline void sync_folder(const Path& folder) {
  const File opened(folder, O_RDONLY | O_DIRECTORY);
  const FileWork here("flushes", folder.native());
  if (::fsync(opened.descriptor()) != 0 && !is_unsupported(errno))
    throw_file_error(folder, "cannot be flushed to the device");
}

/// A number that two jobs writing to one place do not share.
inline std::uint32_t temporary_token() { return std::random_device{}(); }

/// Where `target` is written until it is whole.
inline constexpr std::string_view temporary_mark = ".tmp-sw";
inline Path temporary_path(const Path& target, std::uint32_t token) {
  return Path(target.string() + std::string(temporary_mark) + std::to_string(token));
}

/// Removes the files and folders that killed processes left of targets whose names begin with `prefix`: those with a
/// name of `temporary_path` that no process has locked. Some stay if they cannot be removed.
void remove_abandoned(const Path& folder, std::string_view prefix);
inline void remove_abandoned(const Path& target) {
  remove_abandoned(folder_of(target), target.filename().string() + std::string(temporary_mark));
}

/// Mode and owner of a file or folder that is there.
inline std::optional<struct ::stat> status_of(const Path& path) {
  struct ::stat status {};
  return ::stat(path.c_str(), &status) == 0 ? std::optional(status) : std::nullopt;
}
/// Gives a file or folder the mode of what it replaces, and the owner and group if that is allowed; a group's rights
/// only with it. Where the file system refuses modes, it may keep one that allows less.
inline void keep_access(const File& file, const struct ::stat& replaced) {
  if (::fchown(file.descriptor(), replaced.st_uid, replaced.st_gid) != 0)
    (void)!::fchown(file.descriptor(), ::uid_t(-1), replaced.st_gid);
  struct ::stat now {};
  if (::fstat(file.descriptor(), &now) != 0) throw_file_error(file.path(), "cannot be examined");
  const ::mode_t mode = now.st_mode & 07777u;
  const ::mode_t wanted = replaced.st_mode & (now.st_gid == replaced.st_gid ? 07777u : 07707u);
  if (mode == wanted || ::fchmod(file.descriptor(), wanted) == 0) return;
  if ((mode & ~wanted) != 0 || (errno != EPERM && !is_unsupported(errno)))
    throw_file_error(file.path(), "cannot have the mode of what it replaces");
}

/// A file or folder that is made under a temporary name, instead of those that killed processes left, and takes
/// the name `target` when it is complete. Else the destructor removes it.
class Temporary {
 public:
  Temporary& operator=(Temporary&&) = delete;

  const File& file() const noexcept { return *file_; }
  const Path& path() const noexcept { return path_; }
  const Path& target() const noexcept { return target_; }

 protected:
  /// It replaces the target if that is there; else it has mode and owner of `like`.
  explicit Temporary(Path target, const Path& like = {})
      : target_(std::move(target)), replaced_(status_of(status_of(target_) ? target_ : like)) {}
  ~Temporary() { discard(); }

  /// Opens or creates it. The lock shows other processes that this one is at work.
  void open(Path path, int flags, ::mode_t mode = 0) {
    file_.emplace(path, flags, mode);
    path_ = std::move(path);
    file_->lock();
    remove_abandoned(target_);
  }
  /// Takes the target's name, in one step; with RENAME_EXCHANGE, the target takes the temporary one, and is removed.
  void rename(unsigned flags = 0) {
    const FileWork here("renames", target_.native());
    if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target_.c_str(), flags) != 0) {
      const int code = errno;
      const bool unknown = flags != 0 && is_unsupported(code);
      const auto what = text(
          {flags == 0 ? "cannot be renamed from " : "cannot change places with ", path_.filename().string(),
           unknown ? ", perhaps as this file system cannot do that: choose another name" : ""});
      throw_file_error(target_, what, code);
    }
    if (flags == 0) path_.clear();
    discard();
  }
  void discard() noexcept {
    if (!path_.empty()) remove_folder(path_);
    path_.clear();
  }

  const Path target_;
  const std::optional<struct ::stat> replaced_;

 private:
  std::optional<File> file_;
  Path path_;
};

}  // namespace detail

/// A new file under a temporary name beside `target`: write to its `file()`, which is at `path()`, and commit. Without
/// that, the destructor removes it. So to make one also shows whether `target` can be written. When it takes the
/// target's name, it gets mode and owner of the file of that name, or else of `like`, if that is there. All functions
/// throw `std::runtime_error`.
class TemporaryFile : public detail::Temporary {
 public:
  /// Processes that write to one target at the same time give different tokens.
  explicit TemporaryFile(std::filesystem::path target, const std::filesystem::path& like = {},
                         std::uint32_t token = detail::temporary_token())
      : Temporary(std::move(target), like) {
    open(detail::temporary_path(target_, token), O_RDWR | O_CREAT | O_EXCL, replaced_ ? 0600 : 0666);
  }

  /// Takes the target's name. On return the file is on the device.
  void commit() {
    file().sync();
    rename();
    detail::sync_folder(detail::folder_of(target_));
  }
  /// The same, but the caller flushes the file before, and the folder afterwards.
  void rename() {
    if (replaced_) detail::keep_access(file(), *replaced_);
    Temporary::rename();
  }
  /// The same, but in another folder, where no file has that name. The file also keeps its temporary name.
  void link_into(const std::filesystem::path& folder) const {
    if (replaced_) detail::keep_access(file(), *replaced_);
    std::filesystem::create_hard_link(path(), folder / target_.filename());
  }
};

/// Whether the name is that of a temporary file or folder: not complete yet, or about to be removed.
inline bool is_temporary(const std::filesystem::path& path) {
  return path.filename().string().find(detail::temporary_mark) != std::string::npos;
}

/// A file's whole text, also if it has more than it says, as those in /proc. Throws `std::runtime_error` if it cannot
/// be read, or memory has no room for it.
std::string read_text(const std::filesystem::path& path);

/// Writes a small file: under its name there is always the old text or the new, whole. For one rank to call;
/// throws `std::runtime_error`, and then the old file is as it was.
inline void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  TemporaryFile temporary(path);
  temporary.file().write(text, 0);
  temporary.commit();
}

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
namespace shardwise {
namespace detail {

SHARDWISE_INLINE void remove_abandoned(const Path& folder, std::string_view prefix) {
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(folder, ignored), end; entry != end;
       entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    const auto mark = name.rfind(temporary_mark);
    if (!name.starts_with(prefix) || mark == name.npos) continue;
    const std::string_view token = std::string_view(name).substr(mark + temporary_mark.size());
    if (token.empty() || token.find_first_not_of("0123456789") != token.npos) continue;
    try {
      if (File(entry->path(), O_RDONLY | O_NOFOLLOW).lock()) remove_folder(entry->path());
    } catch (const std::runtime_error&) {  // it belongs to another user, or is gone
    }
  }
}

}  // namespace detail

SHARDWISE_INLINE std::string read_text(const std::filesystem::path& path) {
  const File file(path, O_RDONLY);
  std::string text;
  std::size_t done = 0;
  for (auto room = static_cast<std::size_t>(file.size()) + 1; done == text.size(); room = 2 * room + 4096) {
    try {
      text.resize(room);
    } catch (const std::exception&) {  // too many bytes for memory, or for a string
      detail::fail<std::runtime_error>(
          {path.string(), ": ", room, " bytes are more than there is memory for"});
    }
    done += static_cast<std::size_t>(
        file.read_some(text.data() + done, static_cast<Index>(room - done), static_cast<Index>(done)));
  }
  text.resize(done);
  return text;
}

}  // namespace shardwise
#endif
