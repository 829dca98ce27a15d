# frozen_string_literal: true

require_relative "support"

if Scene.library?("active_job") && Scene.library?("remora/queue/active_job")
  ActiveJob::Base.logger = nil

  class ActiveJobTest < Scene
    RAN = Thread::Queue.new

    class Ran < ActiveJob::Base
      def perform(text, at: nil)
        RAN << [text, at, provider_job_id, executions]
        raise "no such host" if text == "fails"
      end
    end

    class Retried < ActiveJob::Base
      class Later < StandardError; end

      retry_on Later, wait: 0, attempts: 3 do |job, _|
        RAN << [:given_up, job.executions]
      end

      def perform
        RAN << executions
        raise Later
      end
    end

    def adapter(connect: connects, **options)
      @adapter ||= ActiveJob::QueueAdapters::RemoraAdapter.new(connect: connect, **options).tap do |adapter|
        ActiveJob::Base.queue_adapter = adapter
        adapter.create(:default, "mails")
      end
    end

    def work(names = ["default"], **options)
      Remora::Queue::ActiveJobWorkers.new(adapter, names, log: Book.new, **options).run(once: true)
      Array.new(RAN.size) { RAN.pop }
    end

    def setup
      super
      RAN.clear
    end

    test "a job is put and runs with its id" do
      adapter
      job = Ran.perform_later("one", at: :noon)
      assert_match(/\A[0-9a-f]{32}\z/, job.provider_job_id)
      assert_equal job.provider_job_id, value("SELECT id FROM jobs_default")
      Ran.set(queue: "mails").perform_later("two")
      assert_equal [["one", :noon, job.provider_job_id, 1]], work
      assert_equal([["two", nil]], work(["mails"]).map { |ran| ran.first(2) })
      assert_equal [0, 0], [count("jobs_default"), count("jobs_mails")]
    end

    test "jobs have a time and a priority" do
      adapter
      Ran.set(wait: 3600).perform_later("later")
      Ran.set(priority: 5).perform_later("last")
      Ran.set(priority: -5).perform_later("first")
      Ran.perform_later("second")
      assert_equal(%w[first second last], work.map(&:first))
      within = "UNIX_TIMESTAMP(at) - UNIX_TIMESTAMP() BETWEEN 3500 AND 3601"
      delayed = "SET STATEMENT queue_show_owned = ON FOR SELECT COUNT(*) FROM jobs_default WHERE #{within}"
      assert_equal "1", value(delayed)
    end

    test "many jobs are put with one statement for each queue" do
      statements = Thread::Queue.new
      adapter(connect: through("INSERT") do |run|
        statements << true
        run.call
      end)
      jobs = [Ran.new("a"), Ran.new("b"), Ran.new("c"), Ran.new("d")]
      jobs[2].queue_name = "mails"
      # A number or a time, as the version has it.
      jobs[3].scheduled_at = ActiveJob.version < Gem::Version.new("7.1") ? Time.now.to_f + 3600 : Time.now + 3600
      jobs.each { |job| job.define_singleton_method(:successfully_enqueued=) { |is| @is_enqueued = is } }
      assert_equal 4, adapter.enqueue_all(jobs)
      assert_equal [2, 4], [statements.size, jobs.map(&:provider_job_id).uniq.size]
      assert(jobs.all? { |job| job.instance_variable_get(:@is_enqueued) })
      assert_equal(%w[a b], work.map(&:first).sort)
      assert_equal 1, count("jobs_mails")
    end

    test "a job that fails is tried again and then dead" do
      adapter(tries: 2, backoff: [0, 1, 0])
      Ran.perform_later("fails")
      assert_equal([["fails", 1], ["fails", 2]], work.map { |ran| [ran.first, ran.last] })
      assert_equal ["2|no such host"], rows("SELECT failed, why FROM jobs_default_dead")
      Retried.perform_later
      assert_equal [1, 2, 3, [:given_up, 3]], work
      assert_equal [0, 1], [count("jobs_default"), count("jobs_default_dead")]
    end

    test "tables have a prefix and a database" do
      adapter(prefix: "#{database}.work_")
      Ran.perform_later("one")
      assert_equal 1, count("work_default")
    end

    test "an error of one worker ends all of them" do
      adapter
      workers = Remora::Queue::ActiveJobWorkers.new(adapter, %w[default nothing], log: Book.new, wait: 600)
      assert_equal 1146, Driver.number(assert_raises(Driver::ERROR) { workers.run })
      assert adapter.stopping?
      assert_equal 0, waiting.size
    end

    # A file that makes jobs of its own, as --require has it.
    def jobs_in_a_file
      File.write("#{folder}/jobs.rb", <<~RUBY)
        require "#{__dir__}/driver"
        require "active_job"
        require "remora/queue/active_job"
        ActiveJob::Base.logger = nil
        ActiveJob::Base.queue_adapter = ActiveJob::QueueAdapters::RemoraAdapter.new(
          connect: -> { Driver.connect("#{database}") }
        )
        class Writes < ActiveJob::Base
          def perform(text)
            Driver.connect("#{database}").query("INSERT INTO done VALUES ('\#{text}')")
          end
        end
      RUBY
      sql("CREATE TABLE done (what TEXT) ENGINE=InnoDB")
      adapter
    end

    def serialized(text)
      { "job_class" => "Writes", "job_id" => "1", "queue_name" => "default", "arguments" => [text] }
    end

    def worker(*arguments, **options)
      program(File.expand_path("../exe/remora-queue", __dir__), *arguments, **options)
    end

    test "the program works on queues until it is stopped" do
      jobs_in_a_file
      put(adapter.queue("mails"), serialized("mail"))
      started = worker("-r", "#{folder}/jobs.rb", "-q", "default,mails", "-t", "1")
      wait_until("it is done") { rows("SELECT what FROM done") == ["mail"] }
      until_waiting(2)
      Process.kill("TERM", started)
      assert_equal 0, status_of(started).exitstatus
      put(adapter.queue("default"), serialized("once"))
      assert_equal 0, status_of(worker("--require", "#{folder}/jobs.rb", "--once")).exitstatus
      assert_equal %w[mail once], rows("SELECT what FROM done ORDER BY what")
    end

    test "the program says what is wrong" do
      [["--nothing"], ["what"], ["-r", folder], ["-r", "active_job"]].each do |arguments|
        said = "#{folder}/said"
        refute status_of(worker(*arguments, err: said)).success?
        assert_match(/\Aremora-queue: /, File.read(said)) unless arguments.last == "active_job"
      end
    end
  end
end
