"""The example for FastAPI, which is killed while it takes orders, and while it mails bills."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

from support import PATIENCE, SOCKET, Case, until

EXAMPLES = Path(__file__).parents[1] / "examples"


class FastApi(Case):
    def spawn(self, *arguments: str) -> subprocess.Popen[bytes]:
        database = f"mysql+pymysql://root@localhost/{self.database}?unix_socket={SOCKET}"
        process = subprocess.Popen(
            [sys.executable, "-B", *arguments], cwd=EXAMPLES, env={**os.environ, "DATABASE": database}
        )

        def end() -> None:
            process.kill()
            process.wait()

        self.addCleanup(end)
        return process

    def serve(self, port: int) -> subprocess.Popen[bytes]:
        process = self.spawn("-m", "uvicorn", "--port", str(port), "--log-level", "error", "fastapi_shop:app")

        def answers() -> bool:
            assert process.poll() is None
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        until("it answers", answers)
        return process

    def test_an_order_and_its_bill_exist_together_whoever_is_killed(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        acknowledged: list[int] = []
        over = threading.Event()

        def buy() -> None:
            url = f"http://127.0.0.1:{port}/orders?customer=ann@example.org"
            while not over.is_set():
                try:
                    with urllib.request.urlopen(
                        urllib.request.Request(url, method="POST"), timeout=PATIENCE
                    ) as told:
                        acknowledged.append(json.load(told)["order"])
                except (OSError, http.client.HTTPException):
                    over.wait(0.02)

        server = self.serve(port)
        buyers = [threading.Thread(target=buy) for _ in range(4)]
        for thread in buyers:
            thread.start()
        self.addCleanup(over.set)
        for least in (40, 80):
            until("orders are taken", lambda least=least: len(acknowledged) >= least)
            server.kill()
            server.wait()
            server = self.serve(port)
        until("orders are taken", lambda: len(acknowledged) >= 120)
        over.set()
        for thread in buyers:
            thread.join()
        server.terminate()
        server.wait(PATIENCE)
        orders = int(self.value("SELECT COUNT(*) FROM orders"))
        self.assertEqual(int(self.value("SELECT COUNT(*) FROM bills")), orders)
        ids = ", ".join(map(str, acknowledged))
        found = self.value(f"SELECT COUNT(*) FROM orders WHERE id IN ({ids})")
        self.assertEqual(int(found), len(acknowledged))
        mailer = self.spawn("fastapi_shop.py")
        until("bills are mailed", lambda: int(self.value("SELECT SUM(mailed) FROM orders")) >= 30)
        mailer.kill()
        mailer.wait()
        self.spawn("fastapi_shop.py")
        until("all are mailed", lambda: int(self.value("SELECT COUNT(*) FROM bills")) == 0)
        self.assertEqual(int(self.value("SELECT COUNT(*) FROM orders WHERE mailed <> 1")), 0)
