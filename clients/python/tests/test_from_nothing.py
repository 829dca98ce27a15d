"""The commands of the README that begin with nothing, with the server and the packages of a test."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from support import PATIENCE, SOCKET, Case


class FromNothing(Case):
    def run_commands(self, commands: str) -> str:
        """Runs them in a folder of their own; what they print."""
        options = {"unix_socket": SOCKET}
        for written, meant in (
            ('host="127.0.0.1", port=3307, user="root", database="shop"', "**server"),
            ("import pymysql\n", f"import pymysql\nserver = {self.server()!r}\n"),
            (
                'broker="remora://root@127.0.0.1:3307/shop")',
                f'broker="remora://root@localhost/{self.database}", broker_transport_options={options!r})',
            ),
            ("venv/bin/python", f"{sys.executable} -B"),
            ("venv/bin/celery", f"{sys.executable} -B -W ignore -m celery"),
        ):
            commands = commands.replace(written, meant)
        self.assertNotIn("3307", commands)
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                ["bash", "-e", "-c", commands],
                cwd=folder,
                check=False,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=PATIENCE,
            )
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def server(self) -> dict[str, str]:
        return {"unix_socket": SOCKET, "user": "root", "database": self.database}

    def test_a_job_fails_and_is_tried_again(self) -> None:
        text = (Path(__file__).parents[1] / "README.md").read_text(encoding="ascii")
        section = text.partition("## From nothing")[2].partition("\n## ")[0]
        plain, celery = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
        installs, begin, plain = plain.partition("cat >")
        begins = ("remora sandbox ", "python3 -m venv ", "venv/bin/pip ")
        self.assertTrue(all(line.startswith(begins) for line in installs.splitlines()), installs)
        self.assertRegex(
            self.run_commands(begin + plain), r"(?s)try 1 after None.*try 2 after OSError: no such host"
        )
        self.assertRegex(self.run_commands(celery), r"(?s)try 1\n.*try 2\n.*shutdown")
