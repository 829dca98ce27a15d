"""The tests that Kombu has for its transports, with this one: python kombu_suite.py FOLDER

Kombu's source package has them. pip brings it into the folder, unless it is there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import kombu
import pytest

import remora_queue.kombu  # noqa: F401


def fetch(folder: Path) -> None:
    """Only the tests: Kombu itself is the one that is installed."""
    version = f"kombu-{kombu.__version__}"
    if (folder / version / "t/integration").is_dir():
        return
    download = ["download", "--quiet", "--no-deps", "--no-binary", "kombu", "--dest", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", *download, version.replace("-", "==")], check=True)
    with tarfile.open(folder / f"{version}.tar.gz") as package:
        package.extractall(folder, [one for one in package if one.name.startswith(f"{version}/t/")])


if __name__ == "__main__":
    root = Path(sys.argv[1])
    root.mkdir(parents=True, exist_ok=True)
    fetch(root)
    os.environ["KOMBU_TESTS"] = str(root / f"kombu-{kombu.__version__}")
    sys.exit(pytest.main([__file__, "-q", "-p", "no:cacheprovider"]))

sys.path.append(os.environ["KOMBU_TESTS"])

from t.integration import common  # noqa: E402

OPTIONS = {"unix_socket": os.environ["REMORA_QUEUE_SOCKET"]}


@pytest.fixture
def connection() -> Any:
    return kombu.Connection("remora://root@localhost/kombu", transport_options=OPTIONS)


@pytest.fixture
def invalid_connection() -> Any:
    options = {"unix_socket": OPTIONS["unix_socket"] + ".none"}
    return kombu.Connection("remora://root@localhost/kombu", transport_options=options)


class TestBasicFunctionality(common.BasicFunctionality):
    pass


class TestExchangeTypes(common.BaseExchangeTypes):
    pass


class TestTimeToLive(common.BaseTimeToLive):
    pass


class TestPriority(common.BasePriority):
    pass


class TestMessage(common.BaseMessage):
    pass
