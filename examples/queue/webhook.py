"""Sends webhooks: again and again, later and later, and aside when that fails.

    webhook.py URL [--once]     --once: end when nothing waits
"""

import json
import sys
import urllib.error
import urllib.request

import jobs

TABLES = [
    """CREATE TABLE IF NOT EXISTS undelivered (id BIGINT, url TEXT, body TEXT, failed INT NULL, why TEXT NULL)
         ENGINE=QUEUE FAILED=failed WHY=why""",
    """CREATE TABLE IF NOT EXISTS webhook (id BIGINT, url TEXT, body TEXT)
         ENGINE=QUEUE TRIES=4 BACKOFF='0.2,2,60' DEAD='undelivered'""",
]


def send(row, number):
    # The receiver knows a message that it has by its id.
    headers = {"Content-Type": "application/json", "Idempotency-Key": str(row["id"])}
    request = urllib.request.Request(row["url"], row["body"].encode(), headers)
    with urllib.request.urlopen(request, timeout=10):
        pass


if __name__ == "__main__":
    engine = jobs.connect(sys.argv[1])
    jobs.prepare(engine, TABLES)
    # Those that wait for their next try are shorter away than this.
    while jobs.work(engine, "webhook", send, wait=2) or "--once" not in sys.argv:
        pass
