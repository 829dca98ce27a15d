//! Who is compared: what runs in each, and with whom of ours it is compared.

/// What a contestant is written in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Python,
    Node,
    Go,
    Php,
    Ruby,
}

/// Where its jobs are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    MariaDb,
    Redis,
    /// Redis that is synced once a second, as most have it: a crash loses what it has confirmed.
    LaxRedis,
    RabbitMq,
    Postgres,
}

pub(super) struct Contestant {
    pub(super) name: &'static str,
    /// The one of ours in the same language that it is compared with.
    pub(super) ours: &'static str,
    pub(super) language: Language,
    pub(super) server: Kind,
    /// Its file, or for Go a word.
    pub(super) program: &'static str,
    /// What a program for several of them is told.
    pub(super) broker: &'static str,
    /// More jobs a second than it does: so many wait for each second of a run.
    pub(super) most: u64,
}

const PYTHON: &str = "Python: our package";
const CELERY: &str = "Python: Celery on our transport";
const NODE: &str = "Node: our package";
const GO: &str = "Go: our package";
const LARAVEL: &str = "PHP: Laravel on our package";
const RUBY: &str = "Ruby: our package";

/// One in a language, its server, its file and what that is told, and more jobs a second than it does.
const fn one(
    (name, ours): (&'static str, &'static str),
    language: Language,
    server: Kind,
    (program, broker): (&'static str, &'static str),
    most: u64,
) -> Contestant {
    Contestant { name, ours, language, server, program, broker, most }
}

pub(super) static CONTESTANTS: [Contestant; 15] = {
    use Kind::{LaxRedis, MariaDb, Postgres, RabbitMq, Redis};
    use Language::{Go, Node, Php, Python, Ruby};
    [
        one((PYTHON, PYTHON), Python, MariaDb, ("ours.py", ""), 6_000),
        one((CELERY, CELERY), Python, MariaDb, ("celery_jobs.py", "remora"), 1_500),
        one(("Python: Celery on Redis", CELERY), Python, Redis, ("celery_jobs.py", "redis"), 200),
        one(
            ("Python: Celery on Redis, synced once a second", CELERY),
            Python,
            LaxRedis,
            ("celery_jobs.py", "redis"),
            2_000,
        ),
        one(
            ("Python: Celery on RabbitMQ, quorum queue", CELERY),
            Python,
            RabbitMq,
            ("celery_jobs.py", "rabbitmq"),
            1_800,
        ),
        one(("Python: PGMQ", PYTHON), Python, Postgres, ("pgmq_jobs.py", ""), 4_000),
        one((NODE, NODE), Node, MariaDb, ("ours.js", ""), 10_000),
        one(("Node: BullMQ", NODE), Node, Redis, ("bullmq.js", ""), 6_000),
        one(("Node: BullMQ, synced once a second", NODE), Node, LaxRedis, ("bullmq.js", ""), 10_000),
        one((GO, GO), Go, MariaDb, ("ours", ""), 40_000),
        one(("Go: River", GO), Go, Postgres, ("river", ""), 12_000),
        one((LARAVEL, LARAVEL), Php, MariaDb, ("laravel.php", "remora"), 2_500),
        one(("PHP: Laravel's database driver", LARAVEL), Php, MariaDb, ("laravel.php", "database"), 2_000),
        one((RUBY, RUBY), Ruby, MariaDb, ("ours.rb", ""), 6_000),
        one(("Ruby: Solid Queue's statements", RUBY), Ruby, MariaDb, ("solid_queue.rb", ""), 3_000),
    ]
};
