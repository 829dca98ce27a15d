"""An outbox in FastAPI: an order and the job that mails its bill exist together, or neither does.

    pip install fastapi uvicorn "remora-queue[sqlalchemy,pymysql]"
    export DATABASE='mysql+pymysql://root@127.0.0.1:3307/shop'
    uvicorn fastapi_shop:app             # takes orders: POST /orders?customer=ann@example.org
    python fastapi_shop.py               # mails bills, as often as it takes; Ctrl-C ends it
"""

import os
from contextlib import asynccontextmanager

from fastapi import FastAPI
from remora_queue import Queue, worker
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

engine = create_engine(os.environ["DATABASE"], pool_pre_ping=True)


def connect():
    """A connection for the worker, which waits on it: it leaves the pool."""
    pooled = engine.raw_connection()
    own = pooled.dbapi_connection
    pooled.detach()
    return own


bills = Queue("bills", connect=connect, tries=5, backoff=(1, 2, 600))


@asynccontextmanager
async def lifespan(_app):
    with engine.connect() as connection:
        connection.execute(
            text(
                "CREATE TABLE IF NOT EXISTS orders (id BIGINT AUTO_INCREMENT PRIMARY KEY,"
                " customer VARCHAR(200) NOT NULL, mailed INT NOT NULL DEFAULT 0) ENGINE=InnoDB"
            )
        )
        bills.create(connection)
    yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders")
def order(customer: str):
    # Within the function, and not in a dependency: then COMMIT comes before the answer.
    with Session(engine) as session, session.begin():
        made = session.execute(text("INSERT INTO orders (customer) VALUES (:customer)"), {"customer": customer})
        bills.put(session, {"order": made.lastrowid, "to": customer})
    return {"order": made.lastrowid}


@worker(bills, transaction=True)
def mail(job, connection):
    # Here it is only noted, in the transaction that ends the job: once, whatever is killed.
    sql = "UPDATE orders SET mailed = mailed + 1 WHERE id = %s"
    connection.cursor().execute(sql, (job.payload["order"],))


if __name__ == "__main__":
    mail.run()
