# What columnar formats of others make of a table; parsing is not counted. Each is read back and compared.
import os, sys, tempfile, time
import pyarrow as pa, pyarrow.compute, pyarrow.csv as csv, pyarrow.parquet as pq

path = sys.argv[1]
size = os.path.getsize(path)
tsv = path.endswith(".tsv")
table = csv.read_csv(
    path,
    read_options=csv.ReadOptions(autogenerate_column_names=tsv, block_size=64 << 20),
    parse_options=csv.ParseOptions(delimiter="\t" if tsv else ","),
)
# What is a decimal with a fixed number of digits goes in as an integer, which suits the peers.
columns = {}
for name, column in zip(table.column_names, table.columns):
    if pa.types.is_floating(column.type):
        for scale in range(8):
            scaled = pa.compute.round(pa.compute.multiply(column, float(10**scale)))
            back = pa.compute.divide(scaled, float(10**scale))
            if pa.compute.all(pa.compute.less(pa.compute.abs(pa.compute.subtract(back, column)), 1e-9)).as_py():
                column = scaled.cast(pa.int64())
                break
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("s")).cast(pa.int64())
    columns[name] = column.combine_chunks()
table = pa.table(columns)


def say(name, seconds, made):
    print(f"{name:28} {made * 100 / size:6.2f} %  {size / 1e6 / max(seconds, 1e-3):6.0f} MB per processor second", flush=True)


def run(name, work):
    try:
        began = time.process_time()
        made, check = work()
        seconds = time.process_time() - began
        assert check(), "other values came back"
        say(name, seconds, made)
    except Exception as error:
        print(f"{name:28} not measured: {str(error)[:120]}", flush=True)


def parquet(level):
    def work():
        # The best of the encodings that a writer offers, for each column.
        best, dictionary = {}, []
        for name in table.column_names:
            one = table.select([name])
            ways = {"PLAIN": None, "DICT": None}
            if pa.types.is_integer(one.schema[0].type):
                ways.update(DELTA_BINARY_PACKED=None, BYTE_STREAM_SPLIT=None)
            else:
                ways.update(DELTA_BYTE_ARRAY=None)
            for way in ways:
                out = pa.BufferOutputStream()
                options = {"use_dictionary": True} if way == "DICT" else {"use_dictionary": False, "column_encoding": {name: way}}
                pq.write_table(one.slice(0, 131072), out, compression="zstd", compression_level=level, **options)
                ways[way] = out.getvalue().size
            found = min(ways, key=ways.get)
            if found == "DICT":
                dictionary.append(name)
            else:
                best[name] = found
        out = pa.BufferOutputStream()
        pq.write_table(table, out, compression="zstd", compression_level=level, use_dictionary=dictionary or False,
                       column_encoding=best or None, row_group_size=131072)
        made = out.getvalue()
        return made.size, lambda: pq.read_table(pa.BufferReader(made)).equals(table)
    return work


def vortex():
    import vortex as vx
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "table.vortex")
        options = vx.io.VortexWriteOptions.compact()
        options.write(vx.array(table), name)
        back = vx.open(name).to_arrow().read_all()
        same = back.num_rows == table.num_rows and all(
            back.column(c).cast(table.column(c).type).combine_chunks().equals(table.column(c).combine_chunks())
            for c in table.column_names)
        return os.path.getsize(name), lambda: same


run("Parquet, zstd 3", parquet(3))
run("Parquet, zstd 19", parquet(19))
run("Vortex compact", vortex)
