"""Tables of a server, given by a URL, through Python and back."""

import sys
import tempfile
from decimal import Decimal
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow as pa

import remora_db
from remora_db import tables

url = sys.argv[1]
# Of other programs' files nothing is looked at.
temporary = Path(tempfile.mkdtemp())
tempfile.tempdir = str(temporary)


def read(table, **options):
    return tables.read(table, url=url, options=["--no-defaults", "-u", "root"], **options)


def write(data, into, *more, **options):
    return tables.write(data, into, url=url, options=["--no-defaults", "-u", "root", *more], **options)


def raised(kind, work, *arguments, **options):
    try:
        work(*arguments, **options)
    except kind as error:
        return str(error)
    raise AssertionError(f"{arguments} {options}: no error")


reader = read("d.t")
assert isinstance(reader, pa.RecordBatchReader) and any(temporary.iterdir())
table = reader.read_all()
assert not any(temporary.iterdir()), list(temporary.iterdir())
assert table.num_rows == 2000 and table.column("id").to_pylist() == list(range(2000))
assert table.column("big")[1].as_py() == Decimal(2**64 - 1)
assert table.column("price")[3].as_py() == Decimal("3.250")
assert table.column("name")[5].as_py() is None and table.column("name")[6].as_py() == "ü6"

# A reader that nobody reads leaves nothing behind, and neither does one that fails.
unread = read("d.t")
del unread
assert not any(temporary.iterdir())
some = read("d.t", where="id < 10", columns=["kind", "id"], dictionary=["kind"]).read_all()
assert some.column_names == ["kind", "id"] and some.num_rows == 10
assert pa.types.is_dictionary(some.schema.field("kind").type) and some.column("kind")[3].as_py() == "k0"
assert read("d.none").read_all().num_rows == 0
assert "no such database or table" in raised(remora_db.RemoraError, read, "d.missing")
assert "names 3 tables" in raised(LookupError, read, "d.*", odd="null")
assert "--odd" in raised(remora_db.RemoraError, read, "d.odd")
assert read("d.odd", odd="null").read_all().column("day").to_pylist() == [None]
assert raised(KeyError, read, "d.t", columns=["nothing"])
assert raised(ValueError, read, "d.t", odd="no")
assert not any(temporary.iterdir()), list(temporary.iterdir())

same = read("d.t").read_all()
for number, data in enumerate(
    [same, same.to_reader(), polars.from_arrow(same), duckdb.sql("SELECT * FROM same ORDER BY id")]
):
    result = write(data, f"d.copy{number}", "--key", "id")
    assert result.summary["rows"] == 2000
    copied = read(f"d.copy{number}").read_all()
    assert copied.equals(same.cast(copied.schema)), (number, copied.schema, same.schema)
# What pandas makes of integers with NULLs is its own affair; here are none.
frame = pandas.DataFrame({"id": [1, 2], "text": ["a", None], "at": pandas.to_datetime(["2026-01-02", "2026-01-03"])})
write(frame, "d.frame", "--key", "id")
write(frame.assign(id=[3, 4]), "d.frame", mode="append")
assert read("d.frame", columns=["id", "text"]).read_all().to_pylist() == [
    {"id": number, "text": text} for number, text in [(1, "a"), (2, None), (3, "a"), (4, None)]
]
assert "frame" in raised(remora_db.RemoraError, write, frame, "d.frame")
assert raised(remora_db.RemoraError, write, frame, "d.frame", mode="append"), "twice the same key"
write({"id": [7], "text": ["new"], "at": [None]}, "d.frame", mode="replace")
assert read("d.frame").read_all().num_rows == 1
assert raised(ValueError, write, frame, "d.frame", mode="upsert")
assert not any(temporary.iterdir()), list(temporary.iterdir())
