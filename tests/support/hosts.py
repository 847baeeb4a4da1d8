"""Several hosts on one machine: network namespaces on a bridge. Each host has its own host name and processes. Needs
root.

Instead of ssh, each host has a server that runs command lines. hosts.py is also the agent that calls this server over
the network between the hosts. So if a link is cut, the agent is cut off, too. Everybody who reaches the port may run
commands: use it only for tests.

    hosts.py agent HOST COMMAND…     MPIs and clique launch use this instead of ssh
    hosts.py serve                   the server of a host"""
import os
import pathlib
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

PORT, SUBNET, BRIDGE = 5514, "10.78.0", "clq-bridge"
OUT, ERR, END = range(3)
HEAD = struct.Struct("!BI")
RUN_SECONDS = 10  # for ip and other small programs


def run(*words):
    subprocess.run([str(word) for word in words], check=True, timeout=RUN_SECONDS)


# ---- the agent and its server: a line of the command, then pieces (stream, length, bytes), the last with the exit code ----

def serve_one(link):
    with link:
        line = b""
        while not line.endswith(b"\0"):
            more = link.recv(65536)
            if not more:
                return
            line += more
        child = subprocess.Popen(["sh", "-c", line[:-1].decode()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with selectors.DefaultSelector() as ready:
            ready.register(child.stdout, selectors.EVENT_READ, OUT)
            ready.register(child.stderr, selectors.EVENT_READ, ERR)
            try:
                while ready.get_map():
                    for key, _ in ready.select():
                        data = os.read(key.fd, 65536)
                        if data:
                            link.sendall(HEAD.pack(key.data, len(data)) + data)
                        else:
                            ready.unregister(key.fileobj)
                link.sendall(HEAD.pack(END, child.wait() & 255))
            except OSError:
                child.stdout.close()
                child.stderr.close()
                child.wait()


def serve():
    listener = socket.create_server(("", PORT))
    while True:
        link, _ = listener.accept()
        threading.Thread(target=serve_one, args=(link,), daemon=True).start()


def receive(link, count):
    data = b""
    while len(data) < count:
        more = link.recv(count - len(data))
        if not more:
            sys.exit(255)
        data += more
    return data


def ask(arguments):
    while arguments[0].startswith("-"):  # ssh's options
        arguments = arguments[2:] if arguments[0] == "-o" else arguments[1:]
    host, *words = arguments
    try:
        link = socket.create_connection((host, PORT), timeout=3)
    except OSError as error:
        sys.exit(f"agent: {host}: {error}")
    link.settimeout(None)
    link.sendall(" ".join(words).encode() + b"\0")
    while True:
        kind, length = HEAD.unpack(receive(link, HEAD.size))
        if kind == END:
            sys.exit(length)
        os.write(kind + 1, receive(link, length))


# ---- the hosts ----

def is_running(process, name):
    """process: a folder of /proc. The server is process 1 of its host, and does not take the exit codes of orphans."""
    told, state = (process / "stat").read_text().split(" (", 1)[1].rsplit(") ", 1)
    return told == name[:15] and state[0] != "Z"


class Hosts:
    """with Hosts(3) as hosts: n1, n2, n3. Between __enter__ and __exit__ `hosts.on(1, [...])` is a command line for n1."""

    def __init__(self, count):
        self.names = [f"n{i}" for i in range(1, count + 1)]
        self.servers = {}

    def __enter__(self):
        try:
            run("ip", "link", "add", BRIDGE, "type", "bridge")
            run("ip", "link", "set", BRIDGE, "up")
            for number, name in enumerate(self.names, 1):
                self.add(number, name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def add(self, number, name):
        files = pathlib.Path("/etc/netns") / name
        files.mkdir(parents=True)
        (files / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{SUBNET}.{i} {other}\n" for i, other in enumerate(self.names, 1)))
        run("ip", "netns", "add", name)
        run("ip", "link", "add", f"clq-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", f"clq-{name}", "master", BRIDGE, "up")
        run("ip", "-n", name, "addr", "add", f"{SUBNET}.{number}/24", "dev", "eth0")
        for link in ("eth0", "lo"):
            run("ip", "-n", name, "link", "set", link, "up")
        self.servers[name] = subprocess.Popen(
            ["ip", "netns", "exec", name, "unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
             'hostname "$0"; exec "$@"', name, sys.executable, __file__, "serve"], stdin=subprocess.DEVNULL)

    def on(self, number, words):
        """Runs a command on a host, as the host's users do: under the server, so that the command has the host's name
        and processes."""
        return ["ip", "netns", "exec", self.names[number - 1], sys.executable, __file__, "agent", self.names[number - 1],
                "exec env " + " ".join("'" + str(word).replace("'", "'\\''") + "'" for word in words)]

    def cut(self, number, down=True):
        run("ip", "link", "set", f"clq-{self.names[number - 1]}", "down" if down else "up")

    def processes(self, number, name):
        """The ids, in the machine's own numbers, of a host's processes with this name."""
        space = os.readlink(f"/proc/{self.first(number)}/ns/pid")
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "ns/pid") == space and is_running(entry, name):
                    found.append(int(entry.name))
            except OSError:
                continue
        return sorted(found)

    def clear(self):
        """Kills the processes on the hosts, except the servers."""
        for name, server in self.servers.items():
            first = self.first(self.names.index(name) + 1)
            space = os.readlink(f"/proc/{first}/ns/pid")
            for entry in pathlib.Path("/proc").iterdir():
                try:
                    if entry.name.isdigit() and int(entry.name) not in (first, server.pid) and os.readlink(entry / "ns/pid") == space:
                        os.kill(int(entry.name), signal.SIGKILL)
                except OSError:
                    continue

    def first(self, number):
        """The server, which is process 1 of its host."""
        server = self.servers[self.names[number - 1]].pid
        return int(pathlib.Path(f"/proc/{server}/task/{server}/children").read_text().split()[0])

    def __exit__(self, *_):
        for server in self.servers.values():
            server.terminate()  # --kill-child ends the host's processes, too
            try:
                server.wait(RUN_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
        for name in self.names:
            for words in (["ip", "netns", "del", name], ["ip", "link", "del", f"clq-{name}"]):
                subprocess.run(words, stderr=subprocess.DEVNULL, timeout=RUN_SECONDS, check=False)
            shutil.rmtree(f"/etc/netns/{name}", ignore_errors=True)
        subprocess.run(["ip", "link", "del", BRIDGE], stderr=subprocess.DEVNULL, timeout=RUN_SECONDS, check=False)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    serve() if sys.argv[1] == "serve" else ask(sys.argv[2:])
