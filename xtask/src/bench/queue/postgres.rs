//! Queues in PostgreSQL, as pgbench uses them: the statements of PGMQ and of River.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::peer::{Daemon, Peer, Work, number_before, output};
use super::{BODY, folder};
use crate::bench::measure::as_f64;
use crate::setup;

/// The account that owns the files: the server refuses to run as root.
const ACCOUNT: &str = "postgres";

/// What a queue does. In the statements `BATCH` stands for how many messages.
pub(super) struct Statements {
    name: &'static str,
    /// Messages that wait for each second in which they are taken, one at a time and many: more than are
    /// taken.
    queued: [u64; 2],
    /// Creates it empty, without the indexes.
    create: &'static str,
    /// Fills it with `ROWS` messages.
    fill: &'static str,
    index: &'static str,
    publish: &'static str,
    /// Publishes those of the array `:bodies`.
    publish_many: &'static str,
    take: &'static str,
    take_many: &'static str,
    /// Counts messages that wait.
    count: &'static str,
}

/// As documented for 1.11: what `send`, `send_batch`, `read` and `delete` do.
pub(super) const PGMQ: Statements = Statements {
    name: "PGMQ",
    queued: [30_000, 200_000],
    create: "DROP TABLE IF EXISTS q; CREATE TABLE q (
        msg_id bigint GENERATED ALWAYS AS IDENTITY, read_ct integer NOT NULL DEFAULT 0,
        enqueued_at timestamptz NOT NULL DEFAULT now(), last_read_at timestamptz, vt timestamptz NOT NULL, message jsonb,
        headers jsonb)",
    fill: "INSERT INTO q (vt, message) SELECT clock_timestamp(), to_jsonb(lpad(n::text, BODY, '0')) FROM generate_series(1, ROWS) n",
    index: "ALTER TABLE q ADD PRIMARY KEY (msg_id); CREATE INDEX ON q (vt)",
    publish: "INSERT INTO q (vt, message) VALUES (clock_timestamp(), CAST(:body AS jsonb)) RETURNING msg_id;",
    publish_many: "INSERT INTO q (vt, message) SELECT clock_timestamp(), unnest(CAST(:bodies AS jsonb[])) RETURNING msg_id;",
    take: "WITH found AS (SELECT msg_id FROM q WHERE vt <= clock_timestamp() ORDER BY msg_id LIMIT 1 FOR UPDATE SKIP LOCKED)
        UPDATE q SET last_read_at = clock_timestamp(), vt = clock_timestamp() + interval '30 seconds', read_ct = read_ct + 1
        FROM found WHERE q.msg_id = found.msg_id RETURNING q.* \\gset
        DELETE FROM q WHERE msg_id = :msg_id RETURNING msg_id;",
    take_many: "WITH found AS (SELECT msg_id FROM q WHERE vt <= clock_timestamp() ORDER BY msg_id LIMIT 100 FOR UPDATE SKIP LOCKED),
        got AS (UPDATE q SET last_read_at = clock_timestamp(), vt = clock_timestamp() + interval '30 seconds', read_ct = read_ct + 1
        FROM found WHERE q.msg_id = found.msg_id RETURNING q.*)
        SELECT array_agg(msg_id) AS ids, json_agg(got) AS messages FROM got \\gset
        DELETE FROM q WHERE msg_id = ANY(CAST(:ids AS bigint[])) RETURNING msg_id;",
    count: "SELECT count(*) FROM q",
};

/// As its driver for PostgreSQL has them: jobs are inserted, fetched and completed, and stay for a day.
pub(super) const RIVER: Statements = Statements {
    name: "River",
    queued: [20_000, 80_000],
    create: "DROP TABLE IF EXISTS river_job; DROP TYPE IF EXISTS river_job_state; CREATE TYPE river_job_state AS ENUM
        ('available', 'cancelled', 'completed', 'discarded', 'pending', 'retryable', 'running', 'scheduled');
        CREATE TABLE river_job (
        id bigserial, state river_job_state NOT NULL DEFAULT 'available', attempt smallint NOT NULL DEFAULT 0,
        max_attempts smallint NOT NULL, attempted_at timestamptz, created_at timestamptz NOT NULL DEFAULT now(),
        finalized_at timestamptz, scheduled_at timestamptz NOT NULL DEFAULT now(), priority smallint NOT NULL DEFAULT 1,
        args jsonb NOT NULL, attempted_by text[], errors jsonb[], kind text NOT NULL, metadata jsonb NOT NULL DEFAULT '{}',
        queue text NOT NULL DEFAULT 'default', tags varchar(255)[] NOT NULL DEFAULT '{}', unique_key bytea, unique_states bit(8),
        CHECK ((finalized_at IS NULL) = (state NOT IN ('cancelled', 'completed', 'discarded'))),
        CHECK (max_attempts > 0), CHECK (priority BETWEEN 1 AND 4), CHECK (char_length(queue) BETWEEN 1 AND 127),
        CHECK (char_length(kind) BETWEEN 1 AND 127))",
    fill: "INSERT INTO river_job (kind, max_attempts, args) SELECT 'job', 25, to_jsonb(lpad(n::text, BODY, '0')) FROM generate_series(1, ROWS) n",
    index: "ALTER TABLE river_job ADD PRIMARY KEY (id); CREATE INDEX ON river_job (kind);
        CREATE INDEX ON river_job (state, finalized_at) WHERE finalized_at IS NOT NULL;
        CREATE INDEX ON river_job (state, queue, priority, scheduled_at, id); CREATE INDEX ON river_job USING gin (args);
        CREATE INDEX ON river_job USING gin (metadata); CREATE UNIQUE INDEX ON river_job (unique_key) WHERE unique_key IS NOT NULL",
    publish: "INSERT INTO river_job (args, kind, max_attempts) VALUES (CAST(:body AS jsonb), 'job', 25) RETURNING *;",
    publish_many: "INSERT INTO river_job (args, kind, max_attempts) SELECT unnest(CAST(:bodies AS jsonb[])), 'job', 25 RETURNING *;",
    take: "WITH found AS (SELECT id FROM river_job WHERE state = 'available' AND queue = 'default' AND scheduled_at <= now()
        ORDER BY priority, scheduled_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
        UPDATE river_job SET state = 'running', attempt = attempt + 1, attempted_at = now(),
        attempted_by = array_append(attempted_by, 'bench') FROM found WHERE river_job.id = found.id RETURNING river_job.* \\gset
        UPDATE river_job SET state = 'completed', finalized_at = now() WHERE id = :id AND state = 'running';",
    take_many: "WITH found AS (SELECT id FROM river_job WHERE state = 'available' AND queue = 'default' AND scheduled_at <= now()
        ORDER BY priority, scheduled_at, id LIMIT 100 FOR UPDATE SKIP LOCKED),
        got AS (UPDATE river_job SET state = 'running', attempt = attempt + 1, attempted_at = now(),
        attempted_by = array_append(attempted_by, 'bench') FROM found WHERE river_job.id = found.id RETURNING river_job.*)
        SELECT array_agg(id) AS ids, json_agg(got) AS jobs FROM got \\gset
        UPDATE river_job SET state = 'completed', finalized_at = now() WHERE id = ANY(CAST(:ids AS bigint[])) AND state = 'running';",
    count: "SELECT count(*) FROM river_job WHERE state = 'available'",
};

/// The server.
pub(super) struct Postgres {
    /// Ended before its folder is removed.
    daemon: Daemon,
    folder: TempDir,
    programs: PathBuf,
    version: String,
    seconds: u64,
}

/// A queue in it.
pub(super) struct Queue {
    pub(super) server: Rc<Postgres>,
    pub(super) statements: &'static Statements,
}

/// The folder of the newest server's programs.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.filter_map(Result::ok);
    let found =
        versions.map(|version| version.path().join("bin")).filter(|folder| folder.join("initdb").is_file());
    found.max()
}

/// A command of the account that owns the files.
fn owned(program: &Path) -> Command {
    if !setup::is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", ACCOUNT, "--regid", ACCOUNT, "--clear-groups", "--"]).arg(program);
    command
}

impl Postgres {
    /// Starts it, with settings besides those that it needs.
    pub(super) fn start(seconds: u64, more: &[&str]) -> Result<Postgres> {
        if programs().is_none() {
            setup::install(&[("pgbench", "postgresql")])?;
        }
        let programs = programs().context("it is not in /usr/lib/postgresql")?;
        let version = output(Command::new(programs.join("postgres")).arg("--version"))?;
        let version = version.split_whitespace().nth(2).context("no version")?.to_owned();
        let folder = folder()?;
        let data = folder.path().join("data");
        std::fs::create_dir(&data)?;
        if setup::is_root() {
            for path in [folder.path(), &data] {
                output(Command::new("chown").arg(ACCOUNT).arg(path))?;
            }
        }
        let init = ["-A", "trust", "-U", "bench", "--locale=C", "--encoding=UTF8", "-D"];
        output(owned(&programs.join("initdb")).args(init).arg(&data))?;
        let mut server = owned(&programs.join("postgres"));
        server.arg("-D").arg(&data).arg("-k").arg(folder.path());
        let settings = ["listen_addresses=", "shared_buffers=1GB", "max_wal_size=8GB", "max_connections=100"];
        for setting in settings.iter().chain(more) {
            server.args(["-c", setting]);
        }
        let mut daemon = Daemon::start(&server, &folder.path().join("log"))?;
        let is_ready = || {
            let ready =
                Command::new(programs.join("pg_isready")).arg("-q").arg("-h").arg(folder.path()).status();
            ready.is_ok_and(|status| status.success())
        };
        daemon.until(is_ready)?;
        Ok(Postgres { daemon, folder, programs, version, seconds })
    }

    fn client(&self, program: &str) -> Command {
        let mut client = Command::new(self.programs.join(program));
        client.arg("-h").arg(self.folder.path()).args(["-U", "bench"]);
        client
    }

    /// The folder of its socket.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    pub(super) fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    pub(super) fn query(&self, sql: &str) -> Result<String> {
        output(self.client("psql").args(["-qAtX", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-c", sql]))
    }
}

impl Peer for Queue {
    fn name(&self) -> String {
        format!("{}'s statements on PostgreSQL {}", self.statements.name, self.server.version)
    }

    fn rate(&self, work: Work, connections: u32) -> Result<f64> {
        let (server, statements) = (&*self.server, self.statements);
        let many = work.batch > 1;
        server.query(statements.create)?;
        if work.takes {
            let rows = statements.queued[usize::from(many)] * server.seconds;
            let fill = statements.fill.replace("ROWS", &rows.to_string());
            server.query(&fill.replace("BODY", &BODY.to_string()))?;
        }
        server.query(statements.index)?;
        for maintenance in ["VACUUM ANALYZE", "CHECKPOINT"] {
            server.query(maintenance)?;
        }
        let script = match (work.takes, many) {
            (false, false) => statements.publish,
            (false, true) => statements.publish_many,
            (true, false) => statements.take,
            (true, true) => statements.take_many,
        };
        let file = server.folder.path().join("script");
        std::fs::write(&file, script)?;
        let body = format!("\"{:0>BODY$}\"", 1);
        let bodies = vec![body.replace('"', "\\\""); 100].join("\",\"");
        let printed = output(
            server
                .client("pgbench")
                .args(["-n", "-M", "prepared", "-j", "2", "-c", &connections.to_string()])
                .args(["-T", &server.seconds.to_string(), "-D", &format!("body={body}")])
                .args(["-D", &format!("bodies={{\"{bodies}\"}}"), "-f"])
                .arg(&file)
                .arg("postgres"),
        )?;
        if work.takes && server.query(statements.count)?.trim() == "0" {
            bail!("{}: it took all messages before the time was over", self.name());
        }
        // `tps = 1234.5 (without initial connection time)`
        Ok(number_before(&printed, "(without initial")? * as_f64(work.batch))
    }
}
