# frozen_string_literal: true

require "active_job/queue_adapters/remora_adapter"

module Remora
  class Queue
    # Workers for queues of Active Job, in one process.
    class ActiveJobWorkers
      # `names` are those of Active Job. Each queue has workers of its own, with the options of Queue#worker.
      def initialize(adapter, names, **options)
        @adapter = adapter
        @workers = names.map do |name|
          adapter.queue(name).worker(**options) { |job| execute(job) }
        end
      end

      # Works until #stop, SIGTERM or SIGINT; with `once` until nothing waits. See Worker#run.
      def run(once: false)
        @adapter.stopping = false
        handlers = Worker.handle_signals { stop }
        threads = @workers.map { |worker| Thread.new { run_one(worker, once) } }
        threads.each(&:join)
        raise @failure if @failure
      ensure
        # They run on only after an exception, such as that of a second signal.
        threads&.each(&:kill)&.each(&:join)
        Worker.restore(handlers) if handlers
      end

      # Takes nothing more, and lets jobs end. It may be called from a handler of a signal.
      def stop
        @adapter.stopping = true
        @workers.each(&:stop)
      end

      private

      # An error that would come again ends all.
      def run_one(worker, once)
        worker.run(once: once, signals: false)
      rescue StandardError, ScriptError => error
        @failure ||= error
        stop
      end

      def execute(job)
        # Each try of the message counts, as each job does that retry_on has put.
        executions = job.payload["executions"].to_i + job.tries - 1
        data = job.payload.merge("provider_job_id" => job.id, "executions" => executions)
        return ::ActiveJob::Base.execute(data) unless defined?(::Rails.application) && ::Rails.application

        ::Rails.application.executor.wrap { ::ActiveJob::Base.execute(data) }
      end
    end
  end
end
