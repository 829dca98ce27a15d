"""Tables of a server as Arrow data, and Arrow data as tables.

It needs pyarrow: pip install 'remora-db[arrow]'. The program does the work, so values are as exact as its own.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, Mapping, Optional, Sequence

from . import LeftOut, Line, Result, run

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read", "write"]

#: How rows get into a table, and the program's options for it.
_MODES = {"create": ["--create"], "fill": [], "append": ["--append"], "replace": ["--replace"]}


def read(
    table: str,
    *,
    where: Optional[str] = None,
    columns: Optional[Sequence[str]] = None,
    dictionary: Sequence[str] = (),
    odd: str = "fail",
    url: Optional[str] = None,
    options: Sequence[str] = (),
    env: Optional[Mapping[str, str]] = None,
) -> "pa.RecordBatchReader":
    """Reads a table, `db.table`, in one snapshot; with where, an SQL condition, only some of its rows.

    Several sessions first write the rows, compressed, into a temporary folder. The batches are read from there while
    you take them, so they need little memory. The folder goes with the reader.

    columns: only these, in this order. dictionary: columns with few different texts, which become dictionaries.
    url: the server; by default that of the option files. options: more of dump's, such as ["--sessions", "8"].

    odd: what becomes of values that Arrow can't hold, such as the date 0000-00-00. "fail" raises RemoraError, "null"
    makes them NULL.

    Raises RemoraError, also if there is no such table, and LookupError if there are several.
    """
    import pyarrow as pa
    from pyarrow import parquet

    if odd not in ("fail", "null"):
        raise ValueError('odd is "fail" or "null"')
    work = tempfile.TemporaryDirectory(prefix="remora-read-")
    folder = Path(work.name) / "dump"
    command = ["dump", table, "--no-users", "--format", "parquet", "-o", str(folder)]
    command += ["--odd", "fail" if odd == "fail" else "keep", *_server(url), *options]
    if where is not None:
        command += ["--where", where]
    try:
        tables = run(*command, env=env).summary["tables"]
    except LeftOut as error:
        # Of what is NULL now the caller knows; of anything else that is missing nobody would.
        summary = error.result.summary
        if summary["omitted"]:
            raise
        tables = summary["tables"]
    if tables != 1:
        raise LookupError(f"{table} names {tables} tables")
    files = sorted(folder.glob("*/*.parquet"))
    there = parquet.read_schema(files[0])
    fields = [there.field(name) for name in (there.names if columns is None else columns)]
    for at, field in enumerate(fields):
        if field.name in dictionary:
            fields[at] = field.with_type(pa.dictionary(pa.int32(), field.type))
    schema = pa.schema(fields)
    return pa.RecordBatchReader.from_batches(schema, _batches(files, schema, work))


def _batches(
    files: List[Path], schema: "pa.Schema", work: "tempfile.TemporaryDirectory[str]"
) -> Iterator["pa.RecordBatch"]:
    """The rows of all files; then their folder is removed."""
    import pyarrow as pa
    from pyarrow import parquet

    with work:
        for file in files:
            with parquet.ParquetFile(file) as opened:
                for batch in opened.iter_batches(columns=schema.names):
                    # pyarrow can't read the encodings of our files into dictionaries itself.
                    arrays = [
                        array.dictionary_encode() if pa.types.is_dictionary(field.type) else array
                        for field, array in zip(schema, batch.select(schema.names))
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def write(
    data: Any,
    into: str,
    *,
    mode: str = "create",
    url: Optional[str] = None,
    options: Sequence[str] = (),
    env: Optional[Mapping[str, str]] = None,
    on_progress: Optional[Callable[[Line], None]] = None,
) -> Result:
    """Writes a table of pyarrow, pandas or polars, or batches, into a table of a server, `db.table`: all rows or none.

    mode: "create" makes the table with the types of the columns. "fill" fills an empty one. "append" adds the rows.
    "replace" puts them in the place of those that are there.

    url: the server; by default that of the option files. options: more of import's, such as ["--key", "id"].

    Raises RemoraError; a row that the table can't hold is named.
    """
    import pyarrow as pa

    if mode not in _MODES:
        raise ValueError("mode is one of " + ", ".join(_MODES))
    reader = _reader(data)
    with tempfile.TemporaryDirectory(prefix="remora-write-") as work:
        file = Path(work) / "rows.arrow"
        with pa.ipc.new_file(str(file), reader.schema) as sink:
            for batch in reader:
                sink.write_batch(batch)
        command = ["import", str(file), "--into", into, *_MODES[mode], *_server(url), *options]
        return run(*command, env=env, on_progress=on_progress)


def _reader(data: Any) -> "pa.RecordBatchReader":
    import pyarrow as pa

    if isinstance(data, pa.RecordBatchReader):
        return data
    if type(data).__module__.startswith("pandas."):
        # An index is no column, unless it is made one: reset_index().
        data = pa.Table.from_pandas(data, preserve_index=False)
    elif hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    elif not isinstance(data, (pa.Table, pa.RecordBatch)):
        data = pa.table(data)
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    return data.to_reader()


def _server(url: Optional[str]) -> List[str]:
    return [] if url is None else ["--url", url]
