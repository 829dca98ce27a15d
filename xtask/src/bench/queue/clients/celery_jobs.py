"""Celery over the broker that BENCH_BROKER names: a process for each worker, as it does by itself.

A task is acknowledged when it is done, and a process fetches one task ahead.
"""

import os
import sys

import contestant
from celery import Celery

broker, address = os.environ["BENCH_BROKER"], os.environ["BENCH_ADDRESS"]
app = Celery("celery_jobs")
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
)
if broker == "redis":
    app.conf.broker_url = f"redis://127.0.0.1:{address}/0"
elif broker == "rabbitmq":
    app.conf.update(
        broker_url=f"amqp://guest:guest@127.0.0.1:{address}//",
        broker_transport_options={"confirm_publish": True},
        task_default_queue_type="quorum",
    )
else:
    import remora_queue.kombu  # noqa: F401

    app.conf.update(
        broker_url="remora://root@localhost/bench", broker_transport_options={"unix_socket": address}
    )


@app.task(name="job")
def job(payload):
    contestant.record(payload)


def fill(numbers):
    for number in numbers:
        job.delay(contestant.payload(number))


def work(workers):
    command = ["-m", "celery", "-A", "celery_jobs", "worker", "-l", "WARNING", "-c", str(workers)]
    os.execv(sys.executable, [sys.executable, *command])


if __name__ == "__main__":
    contestant.main(lambda: None, fill, lambda: job.delay, work)
