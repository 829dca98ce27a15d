"""A node of Trino on this machine, which ends with this process, and its protocol of statements."""

import ctypes
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

# Starting takes half a minute on an idle machine.
START_S = 600
OPTIONS = """-Xmx2G -XX:+ExitOnOutOfMemoryError -Djdk.attach.allowAttachSelf=true
--add-opens=java.base/java.nio=ALL-UNNAMED --enable-native-access=ALL-UNNAMED
--sun-misc-unsafe-memory-access=allow""".split()


def die_with_parent():
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


class Node:
    """Catalogue `lake` is Iceberg: its tables are registered, and a folder that goes away remembers them."""

    def __init__(self):
        program = pathlib.Path(os.environ["REMORA_TRINO"])
        java = os.environ["REMORA_TRINO_JAVA"]
        self.folder = tempfile.TemporaryDirectory(prefix="remora-trino-")
        home = pathlib.Path(self.folder.name)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        (home / "catalog").mkdir()
        (home / "metastore").mkdir()
        (home / "catalog/lake.properties").write_text(
            "connector.name=iceberg\n"
            "iceberg.catalog.type=TESTING_FILE_METASTORE\n"
            f"hive.metastore.catalog.dir=file://{home}/metastore\n"
            "iceberg.register-table-procedure.enabled=true\n"
            "fs.hadoop.enabled=true\n"
        )
        (home / "config.properties").write_text(
            "coordinator=true\n"
            "node-scheduler.include-coordinator=true\n"
            f"http-server.http.port={self.port}\n"
            f"discovery.uri=http://127.0.0.1:{self.port}\n"
            "catalog.management=static\n"
            f"catalog.config-dir={home}/catalog\n"
            "http-server.log.enabled=false\n"
        )
        properties = {
            "node.environment": "test",
            "node.id": "one",
            "node.data-dir": home / "data",
            "node.internal-address": "127.0.0.1",
            "plugin.dir": program / "plugin",
            "config": home / "config.properties",
        }
        line = [java, *OPTIONS, *[f"-D{name}={value}" for name, value in properties.items()]]
        self.log = open(home / "log", "w+")
        self.process = subprocess.Popen(
            [*line, "-cp", f"{program}/lib/*", "io.trino.server.TrinoServer"],
            stdout=self.log,
            stderr=subprocess.STDOUT,
            cwd=home,
            preexec_fn=die_with_parent,
        )
        self.wait()

    def wait(self):
        end = time.monotonic() + START_S
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if not json.load(self.open("/v1/info"))["starting"]:
                    return
            except (OSError, urllib.error.URLError):
                pass
            time.sleep(0.5)
        self.log.seek(0)
        raise RuntimeError("Trino does not start: " + self.log.read()[-3000:])

    def open(self, path, body=None):
        url = path if path.startswith("http") else f"http://127.0.0.1:{self.port}{path}"
        headers = {"X-Trino-User": "test", "X-Trino-Time-Zone": "UTC"}
        request = urllib.request.Request(url, data=body and body.encode(), headers=headers)
        return urllib.request.urlopen(request, timeout=600)

    def ask(self, sql):
        end = time.monotonic() + START_S
        while True:
            rows, error = self.answer(sql)
            # On a busy machine the node is late to say that it is there, so the statement was not begun.
            if error.get("errorName") != "NO_NODES_AVAILABLE" or time.monotonic() > end:
                break
            time.sleep(0.5)
        if error:
            raise RuntimeError(f"{sql}: {error['message']}")
        return rows

    def answer(self, sql):
        """The rows, and the error if there is one."""
        answer, rows = json.load(self.open("/v1/statement", sql)), []
        while True:
            rows += answer.get("data", [])
            if "error" in answer or "nextUri" not in answer:
                return rows, answer.get("error", {})
            answer = json.load(self.open(answer["nextUri"]))

    def __del__(self):
        if hasattr(self, "process"):
            self.process.kill()
            self.process.wait()
