"""The first row of the table that readers of Parquet are tested with."""

import datetime
import decimal

utc = datetime.timezone.utc
number = decimal.Decimal
EXPECTED = {
    "id": 1,
    "small": 255,
    "big": number("18446744073709551615"),
    "filled": 42,
    "price": number("-12.50"),
    "wide": "-99999999999999999999999999999999999.000000000000000000000000000001",
    "long": number("1234567890123456789012345678.0123456789"),
    "single": 0.10000000149011612,
    "double": 1e20,
    "day": datetime.date(2026, 11, 28),
    "time": datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
    "stamp": datetime.datetime(2038, 1, 19, 3, 14, 7, tzinfo=utc),
    "span": "-838:59:59.000",
    "year": 2026,
    "flag": True,
    "bits": 257,
    "all_bits": number("18446744073709551615"),
    "text": "gr\u00fcn\t\\ \U0001f600",
    "latin": "\u00fc\u20ac",
    "chinese": "\u4f60",
    "choice": "b",
    "choices": "x,y",
    "bytes": b"\x00\xff\n",
    "padded": b"ab\0\0",
    "json": '[1,{"a":2}]',
    "place": b"\1\1\0\0\0\0\0\0\0\0\0\xf0?\0\0\0\0\0\0\0@",
    "place__srid": 4326,
}
