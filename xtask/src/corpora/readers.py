"""What other readers make of files: a line of JSON for each path on standard input.

Every reader gives all rows as they are in the file, the header included, every value as text. A reader that refuses
the file gives its message instead.
"""

import csv
import json
import sys

import clevercsv
import duckdb

csv.field_size_limit(1 << 27)
SAMPLE = 1 << 20


def by_duckdb(path):
    found = duckdb.connect().execute(
        "SELECT * FROM read_csv(?, all_varchar=true, header=false, nullstr='')", [path]
    )
    return [list(row) for row in found.fetchall()]


def text(path):
    raw = open(path, "rb").read()
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def rows(lines, dialect):
    return [row for row in csv.reader(lines, dialect) if row]


def by_csv(path):
    content = text(path)
    return rows(content.splitlines(keepends=True), csv.Sniffer().sniff(content[:SAMPLE]))


def by_clevercsv(path):
    content = text(path)
    found = clevercsv.Sniffer().sniff(content[:65536])
    if found is None:
        raise ValueError("no dialect")
    return rows(content.splitlines(keepends=True), found.to_csv_dialect())


READERS = {"duckdb": by_duckdb, "csv": by_csv, "clevercsv": by_clevercsv}

for line in sys.stdin:
    path = line.rstrip("\n")
    answer = {"path": path, "rows": {}, "refused": {}}
    for name, read in READERS.items():
        try:
            answer["rows"][name] = read(path)
        except Exception as error:
            answer["refused"][name] = str(error).split("\n")[0][:200]
    print(json.dumps(answer, default=str), flush=True)
