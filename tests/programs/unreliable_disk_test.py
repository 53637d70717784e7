#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""File systems that refuse calls, and checkpoints that are damaged, of a newer format, or cannot be read once: a run loses nothing, and
resumed it exports the model of a run that nobody disturbs.  unreliable_disk_test.py SHARDWISE_TRAIN SLOW_DISK"""

import concurrent.futures
import ctypes.util
import errno
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TRAIN, SLOW_DISK = sys.argv[1:3]
TEXT = str(pathlib.Path(__file__).resolve().parent.parent.parent / "include" / "shardwise" / "mesh")
SMALL = f"--text {TEXT} --layers 1 --features 32 --heads 4 --kv-heads 4 --hidden 48 --context 16 --batch 4 --tp 2".split()
SMALL += "--rate-schedule constant --warmup 0".split()
root = pathlib.Path(tempfile.mkdtemp(prefix="shardwise-unreliable-"))


def train(folder, steps, refused=None, place=None):
    """A run with all the files that it can have, in the folder. Its file system, or the place alone, refuses calls."""
    folder.mkdir(exist_ok=True)
    words = ["mpirun", "-n", "2"]
    if refused:
        answers = ",".join(f"{call}:{number}" for call, number in refused.items())
        words += ["-x", f"LD_PRELOAD={SLOW_DISK}", "-x", f"REFUSED_NAME={place or folder}", "-x", f"REFUSED={answers}"]
    words += [TRAIN, *SMALL, "--steps", str(steps), "--save", folder / "saved", "--save-every", "2", "--export", folder / "model"]
    words += ["--cache", folder / "tokens", "--log", folder / "log.jsonl", "--resume"]
    return subprocess.run(words, capture_output=True, text=True, timeout=100)


def model(folder):
    return {path.name: path.read_bytes() for path in sorted((folder / "model").iterdir())}


def names(folder):
    return sorted(path.name for path in (folder / "saved").iterdir())


def steps_in(log):
    return [int(step) for step in re.findall(r'"step": ?(\d+)', log.read_text())]


def refusing(refused):
    """The first run makes all files, the second replaces them."""
    folder = root / "-".join(errno.errorcode[number] for number in refused.values())
    said = ""
    for steps in (4, 6):
        done = train(folder, steps, refused)
        said += f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
        (folder / "model" / "model.safetensors").chmod(0o640)
        (folder / "log.jsonl").chmod(0o640)
        if done.returncode != 0:
            return said
    good = all(f"refused {call} " in said for call in refused) and "resumed from " in said and "step-00000004;" in said
    good = good and model(folder) == expected and names(folder) == ["step-00000002", "step-00000004", "step-00000006"]
    return None if good and steps_in(folder / "log.jsonl") == list(range(6)) else said


def change_manifest(path, before, after):
    text = path.read_text()
    begin = text.index('"manifest":') + len('"manifest":')
    manifest = text[begin:].removesuffix("}\n").replace(before, after).encode()
    xxhash = ctypes.CDLL(ctypes.util.find_library("xxhash")).XXH64
    xxhash.restype, xxhash.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    path.write_text('{"checksum":"%016x","manifest":%s}\n' % (xxhash(manifest, len(manifest), 0), manifest.decode()))


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


# What happens to the last checkpoint, and the one from which a run resumes.
DAMAGE = {
    "manifest cut": (lambda last, before: cut(last / "manifest.json"), 4),
    "manifest gone": (lambda last, before: (last / "manifest.json").unlink(), 4),
    "data cut": (lambda last, before: cut(last / "rank-00001.bin"), 4),
    "data gone": (lambda last, before: (last / "rank-00001.bin").unlink(), 4),
    "byte of data": (lambda last, before: flip(last / "rank-00001.bin"), 4),
    "byte of two": (lambda last, before: (flip(last / "rank-00000.bin"), flip(before / "manifest.json")), 2),
}


def saved_as(name):
    folder = root / name.replace(" ", "-")
    shutil.copytree(root / "undisturbed", folder)
    return folder, folder / "saved" / "step-00000006", folder / "saved" / "step-00000004"


def damaged(name):
    folder, last, before = saved_as(name)
    damage, resumed = DAMAGE[name]
    damage(last, before)
    done = train(folder, 6)
    good = done.returncode == 0 and f"step-0000000{resumed};" in done.stdout and model(folder) == expected
    good = good and "WARNING: the last checkpoint is damaged: " in done.stderr and (last.parent / "step-00000006.damaged").is_dir()
    good = good and done.stderr.count("WARNING: the last checkpoint") == (6 - resumed) // 2 and last.is_dir()
    good = good and steps_in(folder / "log.jsonl") == list(range(6))
    return None if good else f"{name}: exit code {done.returncode}, {names(folder)}\n{done.stdout}{done.stderr}"


def refused_as_newer(_):
    folder, last, before = saved_as("newer")
    change_manifest(last / "manifest.json", '"version":1', '"version":2')
    done = train(folder, 6)
    good = done.returncode != 0 and "the version of the format is 2, newer than the 1 that is known here" in done.stderr
    good = good and "WARNING" not in done.stderr and last.name in names(folder) and len(names(folder)) == 3
    return None if good else f"a newer format: exit code {done.returncode}, {names(folder)}\n{done.stdout}{done.stderr}"


def unread(file):
    """The first read of the file fails; of the next start, none."""
    folder, last, before = saved_as(f"unread {file}")
    done = train(folder, 6, {"pread": errno.EIO}, last / file)
    good = done.returncode != 0 and "refused pread " in done.stderr and f"{file}: cannot be read: {os.strerror(errno.EIO)}" in done.stderr
    good = good and "WARNING" not in done.stderr and len(names(folder)) == 3 and last.name in names(folder)
    again = train(folder, 6)
    good = good and again.returncode == 0 and "step-00000006;" in again.stdout and model(folder) == expected
    return None if good else f"{file} unread: {done.returncode}, {names(folder)}\n{done.stdout}{done.stderr}{again.stdout}{again.stderr}"


done = train(root / "undisturbed", 6)
if done.returncode != 0:
    sys.exit(f"{done.stdout}{done.stderr}")
expected = model(root / "undisturbed")
jobs = [(refusing, {"fsync": errno.EINVAL, "fchmod": errno.ENOSYS, "mmap": errno.ENODEV}),
        (refusing, {"fsync": errno.EOPNOTSUPP, "fchmod": errno.EPERM, "mmap": errno.ENODEV}),
        (refused_as_newer, None), (unread, "manifest.json"), (unread, "rank-00001.bin"), *((damaged, name) for name in DAMAGE)]
with concurrent.futures.ThreadPoolExecutor(3) as pool:
    problems = [said for said in pool.map(lambda job: job[0](job[1]), jobs) if said]
shutil.rmtree(root)
print("\n\n".join(problems))
sys.exit(1 if problems else 0)
