#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""What ssh does, over TCP without any protection, for the hosts of hosts.py:

    remote_shell.py serve ADDRESS           runs the commands that come
    remote_shell.py [OPTIONS] ADDRESS COMMAND...     runs one there, with this program's input, outputs and exit code"""

import os
import selectors
import socket
import struct
import subprocess
import sys
import threading

PORT = 7022


def send(connection, kind, data=b""):
    connection.sendall(struct.pack("!cI", kind, len(data)) + data)


def receive(connection):
    """A kind and its data; None at the end."""
    def exactly(count):
        data = b""
        while len(data) < count:
            part = connection.recv(count - len(data))
            if not part:
                return None
            data += part
        return data
    head = exactly(5)
    if head is None:
        return None
    kind, count = struct.unpack("!cI", head)
    data = exactly(count)
    return None if data is None else (kind, data)


def pass_on_input(connection, process):
    try:
        while got := receive(connection):
            if got[0] == b"z":
                break
            process.stdin.write(got[1])
            process.stdin.flush()
    except OSError:
        pass
    try:
        process.stdin.close()
    except OSError:
        pass


def run(connection):
    try:
        command = receive(connection)
        if not command:
            return
        process = subprocess.Popen(["bash", "-c", command[1].decode()], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        threading.Thread(target=pass_on_input, args=(connection, process), daemon=True).start()
        outputs = selectors.DefaultSelector()
        for kind, stream in ((b"o", process.stdout), (b"e", process.stderr)):
            outputs.register(stream, selectors.EVENT_READ, kind)
        while outputs.get_map():
            ready = outputs.select(0.1)
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                if data:
                    send(connection, key.data, data)
                else:
                    outputs.unregister(key.fileobj)
            if not ready and process.poll() is not None:
                break  # a daemon that it started has its outputs
        send(connection, b"x", struct.pack("!i", process.wait()))
    except OSError:
        pass
    finally:
        connection.close()


def serve(address):
    server = socket.create_server((address, PORT))
    print("ready", flush=True)
    os.dup2(2, 1)  # what it starts must not hold that pipe
    while True:
        threading.Thread(target=run, args=(server.accept()[0],), daemon=True).start()


def call(address, command):
    connection = socket.create_connection((address, PORT), 100)
    connection.settimeout(None)
    send(connection, b"c", command.encode())

    def pass_on():
        try:
            while data := os.read(0, 1 << 16):
                send(connection, b"i", data)
            send(connection, b"z")
        except OSError:
            pass
    threading.Thread(target=pass_on, daemon=True).start()
    while got := receive(connection):
        if got[0] == b"x":
            code = struct.unpack("!i", got[1])[0]
            os._exit(code if code >= 0 else 128 - code)
        os.write(1 if got[0] == b"o" else 2, got[1])
    os._exit(255)


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[0] == "serve":
        serve(words[1])
    while words[0].startswith("-"):
        words = words[2 if words[0] == "-o" else 1:]
    try:
        call(words[0], " ".join(words[1:]))
    except OSError as error:
        sys.exit(f"remote_shell: {words[0]}: {error}")
