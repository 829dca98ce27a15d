"""Uses the installed wheel as a program of a user does."""

import tempfile
from pathlib import Path

import remora_db


def raised(kind, *arguments, **options):
    """The error of this very kind that a run ends with."""
    try:
        remora_db.run(*arguments, **options)
    except remora_db.RemoraError as error:
        assert type(error) is kind, error
        return error
    raise AssertionError(f"{arguments}: no error")


with tempfile.TemporaryDirectory() as folder:
    rows = Path(folder) / "rows.csv"
    rows.write_text("".join(f"{number},text {number}\n" for number in range(300_000)))
    into = ["import", rows, "--into", "w.numbers", "--no-header", "--create", "--create-database"]

    error = raised(remora_db.UsageError, *into, "--url", "nonsense")
    assert error.code == 2 and "mysql://" in error.message, error
    error = raised(remora_db.Unreachable, *into, "--url", f"unix://{folder}/none.sock")
    assert error.code == 10 and error.result.messages, error

    remora_db.run("sandbox", "start", "wheel")
    try:
        seen = []
        result = remora_db.run(*into, "--url", "sandbox:wheel", on_progress=seen.append)
        assert result.code == 0 and result.summary["rows"] == 300_000, result
        assert all(line["message_type"] in ("status", "part") for line in seen), seen
        assert any(line["name"] == "wheel" for line in remora_db.run("sandbox", "list").lines)

        # A difference is no failure of the program.
        for name in "one", "two":
            remora_db.run("dump", "w", "-o", Path(folder) / name, "--url", "sandbox:wheel")
            statement = "DELETE FROM w.numbers LIMIT 1"
            text = remora_db.run("sandbox", "shell", "wheel", "--", "-e", f"{statement}; SELECT 'done'").lines
            assert text[-1] == {"message_type": "text", "text": "done"}, text
        raised(remora_db.Differs, "diff", Path(folder) / "one", Path(folder) / "two")

        class Enough(Exception):
            """What a callback may raise."""

        def stop(line):
            raise Enough

        try:
            remora_db.run(*into[:3], "w.more", *into[4:], "--url", "sandbox:wheel", on_progress=stop)
            assert not seen, "the callback was not called this time"
        except Enough:
            pass
    finally:
        remora_db.run("sandbox", "stop", "wheel", "--remove")
