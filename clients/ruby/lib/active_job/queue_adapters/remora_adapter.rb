# frozen_string_literal: true

require "active_job"
require "remora/queue"

module ActiveJob
  module QueueAdapters
    # Active Job on ENGINE=QUEUE: `config.active_job.queue_adapter = :remora`. The queue "mails" of Active Job
    # is the table "jobs_mails".
    #
    # With Active Record a job is put on its connection, and so is a part of the transaction of the program.
    class RemoraAdapter < (defined?(AbstractAdapter) ? AbstractAdapter : Object)
      # Whether the workers of this process are to stop: long jobs of Active Job 8.1 ask for it.
      attr_accessor :stopping
      alias stopping? stopping

      # prefix::  what the names of tables begin with. It may have a database: "shop.jobs_"
      # connect:: opens a connection of mysql2 or trilogy. By default connections are as those of
      #           ActiveRecord::Base, and jobs are put on its own. With `connect` they are not.
      # The other options are those of Remora::Queue.
      def initialize(prefix: "jobs_", connect: nil, **options)
        @database, _, @prefix = prefix.rpartition(".")
        @connect = connect
        @options = { priority: true, **options }
        @queues = {}
        @mutex = Mutex.new
        @stopping = false
      end

      # The queue of a name of Active Job.
      def queue(name)
        @mutex.synchronize do
          @queues[name] ||= Remora::Queue.new(
            [@database, "#{@prefix}#{name}"].reject(&:empty?).map { |part| Remora::Queue::Statements.quoted(part) }
              .join("."),
            connect: @connect || Remora::Queue.connect_as(::ActiveRecord::Base), **@options
          )
        end
      end

      # Makes the tables of queues if they are not there, as a migration does it.
      def create(*names)
        with_connection { |connection| names.each { |name| queue(name.to_s).create(connection) } }
      end

      def enqueue(job) # :nodoc:
        put(job.queue_name, [[job, nil]])
      end

      def enqueue_at(job, timestamp) # :nodoc:
        put(job.queue_name, [[job, timestamp]])
      end

      # All jobs of a queue are put with one statement.
      def enqueue_all(jobs) # :nodoc:
        jobs.group_by(&:queue_name).each do |name, some|
          put(name, some.map { |job| [job, job.scheduled_at&.to_f] })
          some.each { |job| job.successfully_enqueued = true }
        end
        jobs.size
      end

      # A job is a part of the transaction already.
      def enqueue_after_transaction_commit? # :nodoc:
        false
      end

      private

      def put(name, some)
        messages = some.map do |job, timestamp|
          at = timestamp && Time.at(timestamp)
          Remora::Queue::Message.new(job.serialize, at: at, priority: job.priority)
        end
        ids = with_connection { |connection| queue(name).put_many(connection, messages) }
        some.each_with_index { |(job, _), at| job.provider_job_id = ids[at] }
      end

      def with_connection(&block)
        return ::ActiveRecord::Base.connection_pool.with_connection(&block) unless @connect

        begin
          connection = @connect.call
          yield(connection)
        ensure
          connection&.close
        end
      end
    end
  end
end
