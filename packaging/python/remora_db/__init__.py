"""Runs remora: results are objects, errors are exceptions, and progress calls a function.

The lines of each command are described in remora's manual, as JSON Schemas.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

__all__ = [
    "Busy",
    "Differs",
    "Gap",
    "LeftOut",
    "Line",
    "RemoraError",
    "Result",
    "Stopped",
    "Unreachable",
    "UsageError",
    "program",
    "run",
]

#: A line that the program printed.
Line = Dict[str, Any]

#: Lines that say how far a run is. There may be many, so they are not kept.
_PROGRESS = ("status", "part")


@dataclass(frozen=True)
class Result:
    """What a run has printed."""

    code: int
    #: All lines but those of progress, in order.
    lines: List[Line]

    @property
    def summary(self) -> Line:
        """The last line that says what was done.

        Raises LookupError if there is none, because the command has none or has failed before.
        """
        for line in reversed(self.lines):
            if line.get("message_type") == "summary":
                return line
        raise LookupError("the command printed no summary")

    @property
    def messages(self) -> List[str]:
        """Notes, warnings and errors, as people read them."""
        kinds = ("note", "warning", "error")
        return [str(line["message"]) for line in self.lines if line.get("message_type") in kinds]


class RemoraError(Exception):
    """A run that did not end with code 0."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.message = message
        self.result = result

    @property
    def code(self) -> int:
        """The exit code; negative if a signal killed the program."""
        return self.result.code


class UsageError(RemoraError):
    """Code 2: a wrong command line or option file."""


class LeftOut(RemoraError):
    """Code 3: finished, but some items were left out; each is named in the lines."""


class Differs(RemoraError):
    """Code 4: verification found a difference or damage."""


class Unreachable(RemoraError):
    """Code 10: the server is unreachable, or it refused the connection."""


class Busy(RemoraError):
    """Code 11: another run uses the target, or a lock was not obtained in time."""


class Gap(RemoraError):
    """Code 12: done, but the server's log has a gap or a fork."""


class Stopped(RemoraError):
    """Codes 129, 130 and 143: stopped by a signal; what was done is kept where it can be resumed."""


_ERRORS = {2: UsageError, 3: LeftOut, 4: Differs, 10: Unreachable, 11: Busy, 12: Gap}
_ERRORS.update({129: Stopped, 130: Stopped, 143: Stopped})


def program() -> str:
    """The path of the program that came with this package, or else of the one on the PATH.

    Raises FileNotFoundError if there is neither.
    """
    scripts = [Path(sysconfig.get_path("scripts")), Path(sysconfig.get_path("scripts", _user_scheme()))]
    # pip install --target DIR puts programs into DIR/bin.
    scripts.append(Path(__file__).parents[1] / "bin")
    for folder in scripts:
        if (folder / "remora").is_file():
            return str(folder / "remora")
    found = shutil.which("remora")
    if found is None:
        raise FileNotFoundError("the program remora is neither in " + ", ".join(map(str, scripts)) + " nor on the PATH")
    return found


def _user_scheme() -> str:
    if sys.version_info >= (3, 10):
        return sysconfig.get_preferred_scheme("user")
    return "posix_user"


def run(
    *arguments: Union[str, "os.PathLike[str]"],
    on_progress: Optional[Callable[[Line], None]] = None,
    env: Optional[Mapping[str, str]] = None,
    cwd: Union[str, "os.PathLike[str]", None] = None,
) -> Result:
    """Runs a command, such as run("backup", "mysql:", "--to", "repo"), and returns what it printed.

    on_progress is called with each line of progress; an exception in it stops the run. env and cwd are those of
    the program, and by default ours.

    Raises a RemoraError if the code is not 0.
    """
    command = [program(), *(os.fspath(argument) for argument in arguments)]
    # What follows two dashes is for another program.
    at = command.index("--") if "--" in command else len(command)
    command.insert(at, "--json")
    lines: List[Line] = []
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=env, cwd=cwd
        )
        assert process.stdout is not None
        try:
            for text in process.stdout:
                line = _line(text)
                if line.get("message_type") not in _PROGRESS:
                    lines.append(line)
                elif on_progress is not None:
                    on_progress(line)
            code = process.wait()
        except BaseException:
            # It ends as with Ctrl-C, and keeps what can be resumed.
            process.send_signal(signal.SIGINT)
            process.communicate()
            raise
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip()
    result = Result(code, lines)
    if code != 0:
        reasons = [str(line["message"]) for line in lines if line.get("message_type") == "error"]
        message = reasons[-1] if reasons else said or f"remora ended with {code}"
        raise _ERRORS.get(code, RemoraError)(message, result)
    return result


def _line(text: bytes) -> Line:
    """A line as an object; a command that runs another program passes on what that prints."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, dict):
        return value
    return {"message_type": "text", "text": text.decode(errors="replace").rstrip("\n")}
