/* SPDX-FileCopyrightText: 2026 The Shardwise developers
   SPDX-License-Identifier: Apache-2.0 */

/* Preloaded into programs with MPICH: ranks that wait give up their core. MPICH 4.0 over UCX spins, so more ranks than cores
   take 7 times as long or more. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

unsigned ucp_worker_progress(void* worker) {
  static unsigned (*progress)(void*);
  if (!progress) progress = (unsigned (*)(void*))dlsym(RTLD_NEXT, "ucp_worker_progress");
  const unsigned done = progress(worker);
  if (!done) sched_yield();
  return done;
}
