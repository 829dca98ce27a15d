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

pub(super) static CONTESTANTS: [Contestant; 15] = {
    use Kind::{LaxRedis, MariaDb, Postgres, RabbitMq, Redis};
    use Language::{Go, Node, Php, Python, Ruby};
    [
        Contestant {
            name: PYTHON,
            ours: PYTHON,
            language: Python,
            server: MariaDb,
            program: "ours.py",
            broker: "",
            most: 20_000,
        },
        Contestant {
            name: CELERY,
            ours: CELERY,
            language: Python,
            server: MariaDb,
            program: "celery_jobs.py",
            broker: "remora",
            most: 8_000,
        },
        Contestant {
            name: "Python: Celery on Redis",
            ours: CELERY,
            language: Python,
            server: Redis,
            program: "celery_jobs.py",
            broker: "redis",
            most: 2_000,
        },
        Contestant {
            name: "Python: Celery on Redis, synced once a second",
            ours: CELERY,
            language: Python,
            server: LaxRedis,
            program: "celery_jobs.py",
            broker: "redis",
            most: 6_000,
        },
        Contestant {
            name: "Python: Celery on RabbitMQ, quorum queue",
            ours: CELERY,
            language: Python,
            server: RabbitMq,
            program: "celery_jobs.py",
            broker: "rabbitmq",
            most: 8_000,
        },
        Contestant {
            name: "Python: PGMQ",
            ours: PYTHON,
            language: Python,
            server: Postgres,
            program: "pgmq_jobs.py",
            broker: "",
            most: 8_000,
        },
        Contestant {
            name: NODE,
            ours: NODE,
            language: Node,
            server: MariaDb,
            program: "ours.js",
            broker: "",
            most: 40_000,
        },
        Contestant {
            name: "Node: BullMQ",
            ours: NODE,
            language: Node,
            server: Redis,
            program: "bullmq.js",
            broker: "",
            most: 20_000,
        },
        Contestant {
            name: "Node: BullMQ, synced once a second",
            ours: NODE,
            language: Node,
            server: LaxRedis,
            program: "bullmq.js",
            broker: "",
            most: 40_000,
        },
        Contestant {
            name: GO,
            ours: GO,
            language: Go,
            server: MariaDb,
            program: "ours",
            broker: "",
            most: 80_000,
        },
        Contestant {
            name: "Go: River",
            ours: GO,
            language: Go,
            server: Postgres,
            program: "river",
            broker: "",
            most: 12_000,
        },
        Contestant {
            name: LARAVEL,
            ours: LARAVEL,
            language: Php,
            server: MariaDb,
            program: "laravel.php",
            broker: "remora",
            most: 12_000,
        },
        Contestant {
            name: "PHP: Laravel's database driver",
            ours: LARAVEL,
            language: Php,
            server: MariaDb,
            program: "laravel.php",
            broker: "database",
            most: 2_500,
        },
        Contestant {
            name: RUBY,
            ours: RUBY,
            language: Ruby,
            server: MariaDb,
            program: "ours.rb",
            broker: "",
            most: 16_000,
        },
        Contestant {
            name: "Ruby: Solid Queue's statements",
            ours: RUBY,
            language: Ruby,
            server: MariaDb,
            program: "solid_queue.rb",
            broker: "",
            most: 6_000,
        },
    ]
};
