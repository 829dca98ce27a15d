"""A transactional outbox: an order and its message exist together or not at all.

    outbox.py URL place N     places orders; every third one is rolled back
    outbox.py URL relay       takes messages, until none waits; the effect of each is there exactly once

The message is published by a trigger, so no program can forget it.
"""

import sys

from sqlalchemy import text

import jobs

TABLES = [
    "CREATE TABLE IF NOT EXISTS orders (id BIGINT PRIMARY KEY, what VARCHAR(50)) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS outbox (id BIGINT, what VARCHAR(50)) ENGINE=QUEUE TRANSACTIONAL=1",
    "CREATE TABLE IF NOT EXISTS mail (id BIGINT, what VARCHAR(50)) ENGINE=InnoDB",
    """CREATE TRIGGER IF NOT EXISTS tell AFTER INSERT ON orders FOR EACH ROW
         INSERT INTO outbox VALUES (NEW.id, NEW.what)""",
]


def place(engine, count):
    for number in range(count):
        with engine.connect() as connection:
            connection.execute(text("INSERT INTO orders VALUES (:id, 'tea')"), {"id": number})
            if number % 3 != 2:
                connection.commit()


def relay(engine):
    # One connection for all: what it has taken is in its transaction.
    with engine.connect() as connection:
        while True:
            row = connection.execute(text("SELECT * FROM outbox WHERE queue_wait('outbox', 0)")).fetchone()
            if row is None:
                connection.rollback()
                return
            connection.execute(text("INSERT INTO mail VALUES (:id, :what)"), {"id": row.id, "what": row.what})
            connection.commit()


if __name__ == "__main__":
    engine = jobs.connect(sys.argv[1])
    jobs.prepare(engine, TABLES)
    if sys.argv[2] == "place":
        place(engine, int(sys.argv[3]))
    else:
        relay(engine)
