// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// MPI for a program of one process, without an MPI library: collectives copy, and no message can be sent. It has what
// Shardwise calls, so that layouts, traces and programs on one rank compile and run with a compiler alone.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>

using MPI_Comm = int;
using MPI_Group = int;
using MPI_Request = int;
using MPI_Info = int;
using MPI_Datatype = int;  // the size of an element; copies need no more
using MPI_Op = int;
struct MPI_Status {
  int MPI_SOURCE, MPI_TAG, MPI_ERROR;
};
using MPI_User_function = void(void*, void*, int*, MPI_Datatype*);
using MPI_Comm_copy_attr_function = int(MPI_Comm, int, void*, void*, void*, int*);
using MPI_Comm_delete_attr_function = int(MPI_Comm, int, void*, void*);

enum { MPI_SUCCESS, MPI_ERR_COUNT, MPI_ERR_ROOT, MPI_ERR_TRUNCATE, MPI_ERR_OTHER };
enum { MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE };
enum { MPI_COMM_NULL, MPI_COMM_WORLD, MPI_COMM_SELF };
enum { MPI_GROUP_NULL, MPI_GROUP_OF_ALL };
enum { MPI_OP_NULL, MPI_SUM, MPI_MIN, MPI_MAX, MPI_BOR };
enum {
  MPI_DATATYPE_NULL,
  MPI_BYTE,
  MPI_CHAR = MPI_BYTE,
  MPI_INT = 4,
  MPI_UINT = 4,
  MPI_FLOAT = 4,
  MPI_INT32_T = 4,
  MPI_UINT8_T = 1,
  MPI_UINT16_T = 2,
  MPI_DOUBLE = 8,
  MPI_INT64_T = 8,
  MPI_UINT64_T = 8
};
constexpr int MPI_REQUEST_NULL = 0, MPI_INFO_NULL = 0, MPI_KEYVAL_INVALID = -1, MPI_UNDEFINED = -1,
              MPI_ANY_SOURCE = -1, MPI_ANY_TAG = -1, MPI_COMM_TYPE_SHARED = 0, MPI_ERRORS_RETURN = 0,
              MPI_MAX_ERROR_STRING = 64;
inline MPI_Status* const MPI_STATUS_IGNORE = nullptr;
inline void* const MPI_IN_PLACE = reinterpret_cast<void*>(-1);
inline MPI_Comm_copy_attr_function* const MPI_COMM_NULL_COPY_FN = nullptr;

namespace one_process_mpi {
inline int state = 0;  // 1: initialised, 2: finalised
inline std::map<int, MPI_Comm_delete_attr_function*> ends;
inline std::map<int, void*> attributes;
inline int copy(const void* in, void* out, std::size_t bytes) {
  if (in != MPI_IN_PLACE && in != out && bytes > 0) std::memmove(out, in, bytes);
  return MPI_SUCCESS;
}
inline int copy(const void* in, void* out, int count, MPI_Datatype type) {
  return copy(in, out, static_cast<std::size_t>(count) * static_cast<std::size_t>(type));
}
}  // namespace one_process_mpi

inline int MPI_Init_thread(int*, char***, int wanted, int* level) {
  one_process_mpi::state = 1;
  *level = wanted;
  return MPI_SUCCESS;
}
inline int MPI_Finalize() {
  for (const auto& [key, attribute] : one_process_mpi::attributes)
    one_process_mpi::ends[key](MPI_COMM_SELF, key, attribute, nullptr);
  one_process_mpi::attributes.clear();
  one_process_mpi::state = 2;
  return MPI_SUCCESS;
}
inline int MPI_Initialized(int* flag) { return *flag = one_process_mpi::state > 0, MPI_SUCCESS; }
inline int MPI_Finalized(int* flag) { return *flag = one_process_mpi::state > 1, MPI_SUCCESS; }
inline int MPI_Query_thread(int* level) { return *level = MPI_THREAD_MULTIPLE, MPI_SUCCESS; }
inline double MPI_Wtime() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
[[noreturn]] inline int MPI_Abort(MPI_Comm, int code) { std::exit(code); }
inline int MPI_Error_class(int code, int* kind) { return *kind = code, MPI_SUCCESS; }
inline int MPI_Error_string(int code, char* text, int* length) {
  static constexpr const char* texts[]{"success", "invalid count", "invalid root", "message truncated",
                                       "not possible in one process without MPI"};
  std::strcpy(text, texts[code]);
  return *length = static_cast<int>(std::strlen(text)), MPI_SUCCESS;
}

inline int MPI_Comm_rank(MPI_Comm, int* rank) { return *rank = 0, MPI_SUCCESS; }
inline int MPI_Comm_size(MPI_Comm, int* size) { return *size = 1, MPI_SUCCESS; }
inline int MPI_Comm_dup(MPI_Comm of, MPI_Comm* copy) { return *copy = of, MPI_SUCCESS; }
inline int MPI_Comm_free(MPI_Comm* comm) { return *comm = MPI_COMM_NULL, MPI_SUCCESS; }
inline int MPI_Comm_split_type(MPI_Comm of, int, int, MPI_Info, MPI_Comm* part) {
  return *part = of, MPI_SUCCESS;
}
inline int MPI_Comm_set_errhandler(MPI_Comm, int) { return MPI_SUCCESS; }
inline int MPI_Comm_group(MPI_Comm, MPI_Group* group) { return *group = MPI_GROUP_OF_ALL, MPI_SUCCESS; }
inline int MPI_Group_incl(MPI_Group of, int, const int*, MPI_Group* group) {
  return *group = of, MPI_SUCCESS;
}
inline int MPI_Group_translate_ranks(MPI_Group, int count, const int* in, MPI_Group, int* out) {
  return one_process_mpi::copy(in, out, count, MPI_INT);
}
inline int MPI_Group_free(MPI_Group* group) { return *group = MPI_GROUP_NULL, MPI_SUCCESS; }
inline int MPI_Comm_create_group(MPI_Comm of, MPI_Group, int, MPI_Comm* made) {
  return *made = of, MPI_SUCCESS;
}
inline int MPI_Comm_create_keyval(MPI_Comm_copy_attr_function*, MPI_Comm_delete_attr_function* end, int* key,
                                  void*) {
  *key = static_cast<int>(one_process_mpi::ends.size());
  one_process_mpi::ends[*key] = end;
  return MPI_SUCCESS;
}
inline int MPI_Comm_set_attr(MPI_Comm, int key, void* attribute) {
  one_process_mpi::attributes[key] = attribute;
  return MPI_SUCCESS;
}

inline int MPI_Type_contiguous(int count, MPI_Datatype of, MPI_Datatype* type) {
  return *type = count * of, MPI_SUCCESS;
}
inline int MPI_Type_commit(MPI_Datatype*) { return MPI_SUCCESS; }
inline int MPI_Op_create(MPI_User_function*, int, MPI_Op* op) { return *op = MPI_BOR + 1, MPI_SUCCESS; }
inline int MPI_Reduce_local(const void*, void*, int, MPI_Datatype, MPI_Op) { return MPI_ERR_OTHER; }

inline int MPI_Barrier(MPI_Comm) { return MPI_SUCCESS; }
inline int MPI_Bcast(void*, int, MPI_Datatype, int, MPI_Comm) { return MPI_SUCCESS; }
inline int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op, MPI_Comm) {
  return one_process_mpi::copy(in, out, count, type);
}
inline int MPI_Reduce_scatter(const void* in, void* out, const int counts[], MPI_Datatype type, MPI_Op,
                              MPI_Comm) {
  return one_process_mpi::copy(in, out, counts[0], type);
}
inline int MPI_Allgather(const void* in, int count, MPI_Datatype type, void* out, int, MPI_Datatype,
                         MPI_Comm) {
  return one_process_mpi::copy(in, out, count, type);
}
inline int MPI_Allgatherv(const void* in, int count, MPI_Datatype type, void* out, const int[],
                          const int places[], MPI_Datatype, MPI_Comm) {
  return one_process_mpi::copy(in, static_cast<char*>(out) + places[0] * type, count, type);
}
inline int MPI_Alltoallv(const void* in, const int counts[], const int offsets[], MPI_Datatype type,
                         void* out, const int[], const int places[], MPI_Datatype, MPI_Comm) {
  return one_process_mpi::copy(static_cast<const char*>(in) + offsets[0] * type,
                               static_cast<char*>(out) + places[0] * type, counts[0], type);
}
inline int PMPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return MPI_Allreduce(in, out, count, type, op, comm);
}
inline int PMPI_Bcast(void*, int, MPI_Datatype, int, MPI_Comm) { return MPI_SUCCESS; }
inline int PMPI_Allgather(const void* in, int count, MPI_Datatype type, void* out, int, MPI_Datatype,
                          MPI_Comm) {
  return one_process_mpi::copy(in, out, count, type);
}

inline int MPI_Isend(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*) {
  return MPI_ERR_OTHER;
}
inline int MPI_Irecv(void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*) { return MPI_ERR_OTHER; }
inline int MPI_Recv(void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status*) { return MPI_ERR_OTHER; }
inline int MPI_Iprobe(int, int, MPI_Comm, int* found, MPI_Status*) { return *found = 0, MPI_SUCCESS; }
inline int MPI_Ibarrier(MPI_Comm, MPI_Request*) { return MPI_SUCCESS; }
inline int MPI_Test(MPI_Request*, int* done, MPI_Status*) { return *done = 1, MPI_SUCCESS; }
inline int MPI_Wait(MPI_Request*, MPI_Status*) { return MPI_SUCCESS; }
inline int MPI_Request_free(MPI_Request*) { return MPI_SUCCESS; }
inline int MPI_Get_count(const MPI_Status*, MPI_Datatype, int* count) { return *count = 0, MPI_SUCCESS; }
