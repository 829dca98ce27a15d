# frozen_string_literal: true

# The statements of Solid Queue 1 on MariaDB, without Rails around them: one process with a thread that claims
# jobs for the threads that have nothing to do, ten times a second if there are none, and a thread for each
# worker. Jobs that are done stay, as they do there for a day.

require_relative "contestant"

# The queue.
class SolidQueue
  TABLES = [
    "CREATE TABLE solid_queue_jobs (id BIGINT AUTO_INCREMENT PRIMARY KEY, queue_name VARCHAR(255) NOT NULL,
       class_name VARCHAR(255) NOT NULL, arguments TEXT, priority INT NOT NULL DEFAULT 0,
       active_job_id VARCHAR(255), scheduled_at DATETIME(6), finished_at DATETIME(6),
       concurrency_key VARCHAR(255), created_at DATETIME(6) NOT NULL, updated_at DATETIME(6) NOT NULL,
       KEY (active_job_id), KEY (class_name), KEY (finished_at), KEY (queue_name, finished_at),
       KEY (scheduled_at, finished_at)) ENGINE=InnoDB",
    "CREATE TABLE solid_queue_ready_executions (id BIGINT AUTO_INCREMENT PRIMARY KEY, job_id BIGINT NOT NULL,
       queue_name VARCHAR(255) NOT NULL, priority INT NOT NULL DEFAULT 0, created_at DATETIME(6) NOT NULL,
       UNIQUE KEY (job_id), KEY (priority, job_id), KEY (queue_name, priority, job_id),
       FOREIGN KEY (job_id) REFERENCES solid_queue_jobs (id) ON DELETE CASCADE) ENGINE=InnoDB",
    "CREATE TABLE solid_queue_claimed_executions (id BIGINT AUTO_INCREMENT PRIMARY KEY, job_id BIGINT NOT NULL,
       process_id BIGINT, created_at DATETIME(6) NOT NULL, UNIQUE KEY (job_id), KEY (process_id, job_id),
       FOREIGN KEY (job_id) REFERENCES solid_queue_jobs (id) ON DELETE CASCADE) ENGINE=InnoDB"
  ].freeze
  POLL = 0.1
  DEADLOCK = 1213

  def make(client) = TABLES.each { |sql| client.query(sql) }

  # A job that can be done at once has a row of its own in both tables.
  def put(client, one) = fill(client, [one])

  def fill(client, some)
    jobs = some.map { |one| "('default', 'Job', '#{one.to_json}', 0, UUID(), NOW(6), NOW(6), NOW(6))" }
    transaction(client) do
      client.query("INSERT INTO solid_queue_jobs (queue_name, class_name, arguments, priority, active_job_id,
        scheduled_at, created_at, updated_at) VALUES #{jobs.join(", ")}")
      first = client.last_id
      ready = some.each_index.map { |at| "(#{first + at}, 'default', 0, NOW(6))" }
      client.query("INSERT INTO solid_queue_ready_executions (job_id, queue_name, priority, created_at)
        VALUES #{ready.join(", ")}")
    end
  end

  def work(workers)
    jobs, free = Thread::Queue.new, Thread::SizedQueue.new(workers)
    workers.times do
      free << 1
      Thread.new do
        client = connect
        loop do
          perform(client, jobs.pop)
          free << 1
        end
      end
    end
    claim(connect, jobs, free)
  end

  private

  # A deadlock is tried again, so that the run goes on. In Rails it is an error of who enqueues.
  def transaction(client)
    client.query("BEGIN")
    result = yield
    client.query("COMMIT")
    result
  rescue Mysql2::Error => error
    raise unless error.error_number == DEADLOCK

    retry
  end

  def claim(client, jobs, free)
    loop do
      free.pop
      idle = 1
      idle += 1 while !free.empty? && free.pop
      ids = claim_some(client, idle)
      ids.each { |id| jobs << id }
      (idle - ids.size).times { free << 1 }
      sleep(POLL) if ids.empty?
    end
  end

  def claim_some(client, idle)
    transaction(client) do
      ids = client.query("SELECT job_id FROM solid_queue_ready_executions ORDER BY priority, job_id
        LIMIT #{idle} FOR UPDATE SKIP LOCKED").map { |row| row["job_id"] }
      move(client, ids) if ids.any?
      ids
    end
  end

  def move(client, ids)
    claimed = ids.map { |id| "(#{id}, 1, NOW(6))" }
    list = ids.join(", ")
    client.query("INSERT INTO solid_queue_claimed_executions (job_id, process_id, created_at)
      VALUES #{claimed.join(", ")}")
    client.query("SELECT * FROM solid_queue_claimed_executions WHERE job_id IN (#{list})")
    client.query("DELETE FROM solid_queue_ready_executions WHERE job_id IN (#{list})")
  end

  def perform(client, id)
    job = client.query("SELECT * FROM solid_queue_jobs WHERE id = #{id} LIMIT 1").first
    record(JSON.parse(job["arguments"]))
    transaction(client) do
      client.query("UPDATE solid_queue_jobs SET finished_at = NOW(6), updated_at = NOW(6) WHERE id = #{id}")
      client.query("DELETE FROM solid_queue_claimed_executions WHERE job_id = #{id}")
    end
  end
end

main(SolidQueue.new)
