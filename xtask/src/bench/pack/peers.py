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


def openzl(level):
    import numpy as np, openzl.ext as zl
    g, n = zl.graphs, zl.nodes

    # Ways with a column of numbers, and with one of strings: the components of the library that suit them.
    def numeric(c):
        fields, plain, entropy = g.FieldLz()(c), g.Zstd()(c), g.Compress()(c)
        delta = n.DeltaInt()
        bytewise = n.TransposeSplit()(c, g.Entropy()(c))
        apart = n.ConvertNumToStructLE()(c, bytewise)
        return [
            fields, entropy, delta(c, fields), delta(c, entropy), n.RangePack()(c, fields),
            delta(c, n.Zigzag()(c, fields)), delta(c, n.Zigzag()(c, apart)), apart, delta(c, apart),
            n.TokenizeNumeric(sort=True)(c, delta(c, fields), fields),
            n.TokenizeNumeric(sort=False)(c, fields, n.RangePack()(c, n.ConvertNumToSerialLE()(c, plain))),
        ]

    def text(c):
        fields, plain = g.FieldLz()(c), g.Zstd()(c)
        parts = n.SeparateStringComponents()(c, plain, fields)
        tokens = [n.TokenizeString(sort=sort)(c, parts, way) for sort in (False, True)
                  for way in (fields, n.DeltaInt()(c, fields), n.ConvertNumToSerialLE()(c, plain))]
        return [parts, g.Compress()(c)] + tokens

    def pack(kind, ways, way, inputs):
        compressor, context = zl.Compressor(), zl.CCtx()
        compressor.set_parameter(zl.CParam.CompressionLevel, level)
        compressor.set_parameter(zl.CParam.FormatVersion, zl.MAX_FORMAT_VERSION)
        compressor.set_parameter(zl.CParam.PermissiveCompression, 1)
        compressor.select_starting_graph(ways(compressor)[way])
        context.ref_compressor(compressor)
        return context.compress([zl.Input(kind, *inputs)])

    def prepared(column):
        if pa.types.is_integer(column.type):
            values = column.fill_null(0).to_numpy(zero_copy_only=False)
            return zl.Type.Numeric, numeric, [np.ascontiguousarray(values)]
        values = [value.encode() for value in column.cast(pa.string()).fill_null("").to_pylist()]
        lengths = np.array([len(value) for value in values], dtype=np.uint32)
        return zl.Type.String, text, [np.frombuffer(b"".join(values), dtype=np.uint8), lengths]

    def same(kind, inputs, packed):
        back = zl.DCtx().decompress(packed)[0]
        right = bytes(back.content.as_bytes()) == inputs[0].tobytes()
        return right and (kind != zl.Type.String or bytes(back.string_lens.as_bytes()) == inputs[1].tobytes())

    columns = [prepared(column.combine_chunks()) for column in table.columns]
    best = []
    for kind, ways, inputs in columns:
        sizes = {}
        for way in range(len(ways(zl.Compressor()))):
            try:
                sizes[way] = len(pack(kind, ways, way, inputs))
            except Exception:
                pass
        best.append(min(sizes, key=sizes.get))

    def work():
        packed = [pack(kind, ways, way, inputs) for (kind, ways, inputs), way in zip(columns, best)]
        # NULLs are a bit each.
        nulls = sum((table.num_rows + 7) // 8 for column in table.columns if column.null_count)
        check = lambda: all(same(kind, inputs, one) for (kind, _, inputs), one in zip(columns, packed))
        return sum(map(len, packed)) + nulls, check
    return work


run("Parquet, zstd 3", parquet(3))
run("Parquet, zstd 19", parquet(19))
run("Vortex compact", vortex)
# The search for the best way is not counted.
for level in (3, 9):
    try:
        work = openzl(level)
    except Exception as error:
        print(f"OpenZL not measured: {str(error)[:120]}")
    else:
        run(f"OpenZL, level {level}", work)
