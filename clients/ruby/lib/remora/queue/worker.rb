# frozen_string_literal: true

require "monitor"

module Remora
  class Queue
    # Runs a block for the messages of a queue: see Queue#worker.
    class Worker
      # What a worker does not wait for when it is to end at once. Seconds.
      PATIENCE_OF_ABORT = 1
      private_constant :PATIENCE_OF_ABORT

      def initialize(queue, connect:, lease: 30, threads: 1, batch: 1, transaction: false, where: nil, wait: 20,
                     log: nil, &handler) # :nodoc:
        raise WrongUse, "a worker needs a block" unless handler
        raise WrongUse, "a worker needs `connect`, which opens a connection" unless connect
        raise WrongUse, "a transaction ends one message: it goes with batch: 1" if transaction && batch != 1

        @queue = queue
        @connect = connect
        @lease = Queue.number(lease, "a lease", least: 0.001)
        @threads = Queue.number(threads, "threads", least: 1).to_i
        @batch = Queue.number(batch, "a batch", least: 1).to_i
        @transaction = transaction
        @where = where
        @wait = Queue.number(wait, "a wait")
        @log = Log.new(log)
        @handler = handler
        @monitor = Monitor.new
        @changed = @monitor.new_cond
        @events = Thread::Queue.new
        @stopping = @runs = false
      end

      # Works until #stop, SIGTERM or SIGINT; with `once` until nothing waits and no job runs. Then it takes
      # nothing more, lets the jobs that run end, and returns. A second signal does what it did before: by
      # default it ends the program at once. With `signals: false`, and on another thread than the main one,
      # signals are left to the program.
      #
      # While the server is away, it tries again. An error that would come again at every try comes out: that
      # of the driver for a wrong privilege, condition or table, or WrongUse.
      def run(once: false, signals: true)
        begin_run
        handlers = signals && Thread.current == Thread.main ? Worker.handle_signals { stop } : {}
        finished = false
        begin
          start(once)
          # This thread waits for no server, so that signals reach it whatever the driver does.
          @events.pop
          end_fetching(Waits::PATIENCE)
          end_jobs
          finished = true
        ensure
          finished ? @ender&.close : abort
          @keeper&.close
          Worker.restore(handlers)
          @stopping = @runs = false
          @events.clear
        end
        raise @failure if @failure
      end

      # Takes nothing more: #run returns when the jobs that run have ended. It does not wait, and may be
      # called from anywhere, also from a handler of a signal. When nothing runs, the next #run returns at
      # once.
      def stop
        @stopping = true
        # Locks nothing, as a handler of a signal must not.
        @events << :stop
      end

      # Calls the block at the first SIGTERM or SIGINT, within the handler of the signal. Gives what is to be
      # restored by Worker.restore.
      def self.handle_signals # :nodoc:
        before = {}
        %w[TERM INT].each do |name|
          # nil is a handler that is none of Ruby's.
          before[name] = trap(name) do
            restore(before)
            yield
          end || "SYSTEM_DEFAULT"
        end
        before
      end

      def self.restore(handlers) # :nodoc:
        handlers.each { |name, handler| trap(name, handler) }
      end

      private

      def begin_run
        @monitor.synchronize do
          raise WrongUse, "this worker runs already; make another one" if @runs

          @runs = true
        end
        @aborted = false
        @failure = nil
        # Groups of jobs that nobody has begun.
        @ready = []
        # How many threads run the block.
        @busy = 0
        # By key, until their messages have ended.
        @running = {}
        @workers = []
      end

      def start(once)
        @keeper = Keeper.new(@connect, @lease, @log)
        @ender = Ender.new(@connect, @lease, @log) { |one, is_stale| locked { forget(one, is_stale) } }
        @asking = Line.new(@connect, @wait + [@lease, ANSWER_PATIENCE].max)
        @threads.times { start_thread }
        @fetcher = Thread.new { fetch(once) }
        @fetcher.name = "remora-queue-fetcher"
      end

      def locked(&block)
        @monitor.synchronize(&block)
      end

      def end_fetching(patience)
        locked { @changed.broadcast }
        Waits.end_of(@fetcher, @connect, @log, patience) { @asking.id }
      end

      def end_jobs
        locked do
          end_some(@ready.flatten.map { |job| Ending.new(job, nil, true) })
          @ready.clear
        end
        # One whose handler has ended its thread has started another one before.
        while (thread = locked { @workers.shift })
          thread.join
        end
      end

      # An exception ends `run`, as a second signal does. What is leased comes again.
      def abort
        @stopping = @aborted = true
        end_fetching(PATIENCE_OF_ABORT) if @fetcher&.alive?
        @ender&.abort
        locked { @workers.dup }.each(&:kill)
      end

      # Leases messages until the worker is to stop.
      def fetch(once)
        pauses = Pauses.new
        while (free = until_free)
          begin
            # A job that ends while the server answers may have put or returned something after the answer.
            was_idle = idle?
            found = lease_some(free, once ? 0 : @wait)
            pauses.reset
            next if found || !once

            was_idle ? stop : until_idle
          rescue StandardError, ScriptError => error
            pause_after(error, pauses)
          end
        end
      ensure
        @asking.close
      end

      def pause_after(error, pauses)
        return if Errors.interrupted?(error)

        @asking.drop
        return if @stopping

        if Errors.lasting?(error)
          @failure = error
          return stop
        end
        @log.warn("the queue can't be asked, which is tried again: #{error.message}")
        pause = pauses.next
        locked { @changed.wait(pause) unless @stopping }
      end

      # Waits until threads have nothing to do: how many. nil when the worker is to stop.
      def until_free
        locked do
          @changed.wait_until { @stopping || free.positive? }
          @stopping ? nil : free
        end
      end

      def free
        @threads - @busy - @ready.size
      end

      def idle?
        locked { @running.empty? }
      end

      def until_idle
        locked { @changed.wait_until { @stopping || @running.empty? } }
      end

      # Leases what the threads can begin at once. Whether there was something.
      def lease_some(free, wait)
        check if @asking.id.nil?
        found = Job.all_of(@asking.run(Statements.lease(@queue.table, @where, @lease, free * @batch, wait)))
        locked { begin_some(found.reject { |job| runs_already?(job) }) }
        found.any?
      end

      # Refuses what could never work. One connection is not enough: that is seen here, before a job needs
      # another.
      def check
        OwnLink.new(@connect, ANSWER_PATIENCE).close
        @asking.link
        @queue.look_for_transaction(@asking) if @transaction
      end

      # Whether this message is here: its lease has ended, or it was returned, and it came again.
      def runs_already?(job)
        runs = @running[job.key]
        if runs.nil?
          @running[job.key] = job
          return false
        end
        @keeper.add(runs) if runs.comes_again(job)
        true
      end

      # Gives jobs to the threads.
      def begin_some(jobs)
        jobs.each { |job| @keeper.add(job) }
        @ready.concat(jobs.each_slice(@batch).to_a)
        @changed.broadcast
      end

      def start_thread
        locked do
          thread = Thread.new { work }
          thread.name = "remora-queue-#{@queue.name}"
          @workers << thread
        end
      rescue ThreadError
        # The program ends.
      end

      def work
        # What the driver waits for an answer is up to `connect` here: the handler's statements may take long.
        line = Line.new(@connect, nil, autocommit: false)
        while (jobs = next_jobs)
          perform(jobs, line)
        end
        ended = true
      ensure
        line.close
        # A handler has ended its thread.
        start_thread unless ended || @aborted
      end

      def next_jobs
        locked do
          @changed.wait_until { @stopping || @ready.any? }
          next if @stopping

          @busy += 1
          @ready.shift
        end
      end

      # Runs the handler for jobs, and ends them.
      def perform(jobs, line)
        error = Error.new("the handler has ended its thread")
        call(jobs, line)
        error = nil
      rescue Exception => raised
        # Also SystemExit: a job must not end the worker.
        error = raised
      ensure
        line.drop if error
        worked(jobs, error)
      end

      def call(jobs, line)
        case @transaction
        when false, nil then @handler.call(@batch == 1 ? jobs.first : jobs)
        when true then commit(line.link, false, jobs.first, line.link.client)
        else
          @transaction.connection_pool.with_connection do |connection|
            link = Link.of(connection)
            commit(link, link.run("SELECT @@autocommit").first == "1", jobs.first, connection)
          end
        end
      end

      def commit(link, autocommit, job, connection)
        Transaction.commit_with(link, autocommit, job, -> { over(job) }) { @handler.call(job, connection) }
      end

      # Ends jobs whose handler has ended.
      def worked(jobs, error)
        note(jobs, error) if error
        locked do
          @busy -= 1
          done, left = jobs.partition { |job| @transaction && job.failure.nil? }
          done.each { |job| forget(Ending.new(job), false) }
          end_some(left.map { |job| Ending.new(job, job.failure) })
          @changed.broadcast
        end
      end

      # Gives the jobs their failure, if they have none.
      def note(jobs, error)
        failed = jobs.reject(&:failure)
        failed.each { |job| job.fail(error) }
        return if error.is_a?(Retry) || @aborted

        told = failed.one? ? "a job has failed:" : "#{failed.size} jobs have failed, the first is"
        @log.warn("#{told} #{jobs.first.token}: #{error.full_message(highlight: false)}")
      end

      # From now on its token does not change.
      def over(job)
        job.over!
        @keeper.remove(job)
      end

      # Ends jobs, with as few statements as it takes.
      def end_some(endings)
        endings.each { |one| over(one.job) }
        @ender.end(endings)
      end

      # A token was used. If it was stale, the message that is here again ends in the same way.
      def forget(one, is_stale)
        @running.delete(one.job.key)
        if (again = one.job.again)
          @running[again.key] = again
          if is_stale then end_some([Ending.new(again, one.failure, one.untried)])
          elsif @stopping then end_some([Ending.new(again, nil, true)])
          else begin_some([again])
          end
        end
        @changed.broadcast
      end
    end
  end
end
