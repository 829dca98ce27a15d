# frozen_string_literal: true

# Our package for Ruby: one process with a thread for each worker.

require_relative "contestant"
require "remora/queue"

# The queue.
class Ours
  def initialize = @jobs = Remora::Queue.new("jobs", connect: -> { connect })

  def make(client) = @jobs.create(client)

  def fill(client, some) = @jobs.put_many(client, some.map { |one| Remora::Queue::Message.new(one) })

  def put(client, one) = @jobs.put(client, one)

  def work(workers) = @jobs.worker(threads: workers) { |job| record(job.payload) }.run
end

main(Ours.new)
