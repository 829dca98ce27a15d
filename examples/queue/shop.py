"""Jobs as web frameworks have them: a decorated function, .later(), and the ORM's own transaction.

    shop.py URL order N      orders; every third one fails after it has asked for its mail
    shop.py URL work         does jobs until none waits
"""

import sys

from sqlalchemy import BigInteger, Column, String
from sqlalchemy.orm import Session, declarative_base

import jobs

Base = declarative_base()


class Order(Base):
    __tablename__ = "orders"
    id = Column(BigInteger, primary_key=True, autoincrement=False)
    what = Column(String(50))


class Mail(Base):
    __tablename__ = "mail"
    order_id = Column(BigInteger, primary_key=True, autoincrement=False)


@jobs.job
def send_mail(order_id):
    with Session(engine) as session, session.begin():
        # The job may run twice: merge() says the same again.
        session.merge(Mail(order_id=order_id))


def order(number):
    with Session(engine) as session, session.begin():
        session.add(Order(id=number, what="tea"))
        session.flush()
        send_mail.later(session, number, delay=0.1)
        if number % 3 == 2:
            raise ValueError("the card is refused")


if __name__ == "__main__":
    engine = jobs.connect(sys.argv[1])
    Base.metadata.create_all(engine)
    jobs.prepare(engine, jobs.TABLES)
    if sys.argv[2] == "order":
        for number in range(int(sys.argv[3])):
            try:
                order(number)
            except ValueError:
                pass
    else:
        while jobs.work(engine, "jobs", jobs.run_job, wait=1):
            pass
