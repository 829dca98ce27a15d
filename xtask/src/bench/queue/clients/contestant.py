"""What the contestants in Python share: the job, and who puts jobs.

    PROGRAM make              makes the queue, in an empty database
    PROGRAM fill COUNT        puts so many jobs, as fast as it can
    PROGRAM put RATE COUNT    puts them at times that do not depend on answers
    PROGRAM work WORKERS      does jobs, until it is killed

A job writes its id, when it was to be put, and the time, in microseconds, to the end of the file BENCH_DONE.
"""

import os
import sys
import threading
import time

# How many put at the same time, so that a slow answer does not delay the next put.
LANES = 8

# Ids of jobs that are put at a rate begin here.
RATED = 1_000_000_000

PAD = "x" * 80

done = None


def now():
    return time.time_ns() // 1000


def payload(number, at=None):
    return {"id": number, "put": at or now(), "pad": PAD}


def record(job):
    """The work. One write to the end of a file is atomic, whoever else writes there."""
    global done
    if done is None:
        done = os.open(os.environ["BENCH_DONE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(done, b"%d %d %d\n" % (job["id"], job["put"], now()))


def in_lanes(lane):
    """Runs a function in each lane, with its number."""
    failed = []

    def run(number):
        try:
            lane(number)
        except BaseException as error:
            failed.append(error)

    lanes = [threading.Thread(target=run, args=(number,)) for number in range(LANES)]
    for one in lanes:
        one.start()
    for one in lanes:
        one.join()
    if failed:
        raise failed[0]


def at_rate(rate, count, putter):
    """`putter()` makes the function of a lane that puts one job. Each lane has put one before all begin."""
    ready = threading.Barrier(LANES)

    def lane(number):
        put = putter()
        put(payload(number))
        ready.wait()
        begin = now()
        for job in range(number, count, LANES):
            at = begin + job * 1_000_000 // rate
            time.sleep(max(0, at - now()) / 1e6)
            put(payload(RATED + job, at))

    in_lanes(lane)


def main(make, fill, putter, work):
    """`fill(numbers)` puts jobs with these numbers, from one lane."""
    match sys.argv[1:]:
        case ["make"]:
            make()
        case ["fill", count]:
            in_lanes(lambda number: fill(range(number, int(count), LANES)))
        case ["put", rate, count]:
            at_rate(int(rate), int(count), putter)
        case ["work", workers]:
            work(int(workers))
