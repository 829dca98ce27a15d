# frozen_string_literal: true

# A worker that tests stop and kill: work.rb DATABASE QUEUE plain|transaction [SECONDS OF THE LEASE]
#
# Each job inserts its payload into the table `done` of InnoDB. It fails at its first try if the payload is a
# multiple of seven.

require_relative "driver"

database, name, kind, lease = ARGV
connect = -> { Driver.connect(database) }
quiet = Object.new
def quiet.warn(_) end
queue = Remora::Queue.new(name, connect: connect)
worker = queue.worker(lease: (lease || 30).to_f, wait: 600, threads: 3, transaction: kind == "transaction",
                      log: quiet) do |job, connection|
  raise Remora::Queue::Retry, "a first try" if (job.payload % 7).zero? && job.tries == 1

  (connection || connect.call).query("INSERT INTO done VALUES (#{job.payload})")
end
worker.run
