"""The commands of the README that begin with nothing, with the server and the packages of a test."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import django
from support import PATIENCE, SOCKET, Case

HERE = Path(__file__).parent


class FromNothing(Case):
    def meant(self, commands: str) -> str:
        """With the server and the programs of the test."""
        options = {"unix_socket": SOCKET}
        for written, meant in (
            ('host="127.0.0.1", port=3307, user="root", database="shop"', "**server"),
            ("import pymysql\n", f"import pymysql\nserver = {self.server()!r}\n"),
            (
                'broker="remora://root@127.0.0.1:3307/shop")',
                f'broker="remora://root@localhost/{self.database}", broker_transport_options={options!r})',
            ),
            ("venv/bin/django-admin", f"{sys.executable} -B -m django"),
            ("venv/bin/python", f"{sys.executable} -B"),
            ("venv/bin/celery", f"{sys.executable} -B -W ignore -m celery"),
        ):
            commands = commands.replace(written, meant)
        self.assertNotIn("3307", commands)
        return commands

    def run_commands(self, commands: str) -> str:
        """Runs them in a folder of their own; what they print."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                ["bash", "-e", "-c", self.meant(commands)],
                cwd=folder,
                check=False,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=PATIENCE,
            )
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def run_until(self, text: str, commands: str) -> str:
        """What they print until a text comes. Then Ctrl-C, which must end them as if all was well."""
        with tempfile.TemporaryDirectory() as folder:
            one = subprocess.Popen(
                ["bash", "-e", "-c", self.meant(commands)],
                cwd=folder,
                start_new_session=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )

            def end(number: signal.Signals) -> None:
                with suppress(ProcessLookupError):
                    os.killpg(one.pid, number)

            # Django starts three times, and a busy machine takes long for that.
            limit = threading.Timer(4 * PATIENCE, end, (signal.SIGKILL,))
            limit.start()
            assert one.stdout
            told = ""
            with one:
                for line in one.stdout:
                    told += line
                    if text in line:
                        end(signal.SIGINT)
            limit.cancel()
        self.assertEqual(one.returncode, 0, told)
        return told

    def server(self) -> dict[str, str]:
        return {"unix_socket": SOCKET, "user": "root", "database": self.database}

    def test_a_job_fails_and_is_tried_again(self) -> None:
        text = (Path(__file__).parents[1] / "README.md").read_text(encoding="ascii")
        section = text.partition("## From nothing")[2].partition("\n## ")[0]
        plain, celery, tasks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
        installs, begin, plain = plain.partition("cat >")
        begins = ("remora sandbox ", "python3 -m venv ", "venv/bin/pip ")
        self.assertTrue(all(line.startswith(begins) for line in installs.splitlines()), installs)
        self.assertRegex(
            self.run_commands(begin + plain), r"(?s)try 1 after None.*try 2 after OSError: no such host"
        )
        self.assertRegex(self.run_commands(celery), r"(?s)try 1\n.*try 2\n.*shutdown")
        installs, begin, tasks = tasks.partition("venv/bin/django-admin")
        self.assertTrue(all(line.startswith("venv/bin/pip ") for line in installs.splitlines()), installs)
        database = f"import sys; sys.path.append({str(HERE)!r}); import django_site\n"
        database += f"DATABASES['default'] = django_site.database({self.database!r})"
        tasks = re.sub(r"(?s)DATABASES\[.*?\n}", database, tasks)
        if django.VERSION < (6,):
            # As the line itself says.
            tasks = re.sub("from django.tasks .*: from", "from", tasks)
        told = self.run_until("try 2 for ann@example.org", begin + tasks)
        self.assertRegex(told, r"(?s)try 1 for ann@example.org.*OSError: no such host")
