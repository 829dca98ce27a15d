# frozen_string_literal: true

require_relative "support"

if Driver::NAME == "mysql2" && Scene.library?("active_record") && Scene.library?("remora/queue/active_job")
  class ActiveRecordTest < Scene
    class Order < ActiveRecord::Base
      after_commit { Order.committed << n }
      @committed = []
      class << self
        attr_reader :committed
      end
    end

    class Ships < ActiveJob::Base
      def perform(number)
        Order.create!(n: number)
      end
    end

    def setup
      super
      sql("CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY, n INT) ENGINE=InnoDB")
      ActiveRecord::Base.establish_connection(adapter: "mysql2", socket: Driver::SOCKET, username: "root",
                                              database: database, encoding: "utf8mb4")
      Order.reset_column_information
      Order.committed.clear
    end

    def teardown
      ActiveRecord::Base.remove_connection
      super
    end

    def record
      ActiveRecord::Base.connection
    end

    def queue_of_records(name, *payloads)
      queue(name, *payloads, connect: Queue.connect_as(ActiveRecord::Base))
    end

    test "a put is a part of the transaction of Active Record" do
      queue = queue_of_records("jobs")
      ActiveRecord::Base.transaction do
        # The put is the first statement: Active Record has not begun the transaction yet.
        queue.put(record, 1)
        Order.create!(n: 1)
        raise ActiveRecord::Rollback
      end
      assert_equal [0, 0], [count("jobs"), count("orders")]
      ActiveRecord::Base.transaction { queue.put(record, 2) }
      assert_equal [1, 2], [count("jobs"), taken(queue).payload]
    end

    test "models are a part of the transaction of take" do
      queue = queue_of_records("jobs", 1)
      assert_raises(IndexError) do
        queue.take(record) do
          Order.create!(n: 1)
          raise IndexError
        end
      end
      assert_equal [0, []], [count("orders"), Order.committed]
      assert(queue.take(record) do |job|
        assert_equal 2, job.tries
        Order.create!(n: 2)
        assert_equal 0, count("orders")
      end)
      assert_equal [["2"], [2], 0], [rows("SELECT n FROM orders"), Order.committed, count("jobs")]
      refute record.transaction_open?
      assert_equal "1", record.select_value("SELECT @@autocommit").to_s
    end

    test "models are a part of the transaction of a worker" do
      queue = queue_of_records("jobs", 1, 2)
      told = Book.new
      worker = queue.worker(transaction: ActiveRecord::Base, threads: 2, log: told) do |job, connection|
        assert_same ActiveRecord::Base.connection, connection
        Order.create!(n: job.payload)
        assert_equal 0, count("orders WHERE n = #{job.payload}")
        raise "after its work" if job.tries == 1
      end
      worker.run(once: true)
      assert_equal [%w[1 2], 0], [rows("SELECT n FROM orders ORDER BY n"), count("jobs")]
      assert_equal 2, told.lines.size
    end

    test "a COMMIT that fails is rolled back" do
      queue = queue_of_records("jobs", 1)
      connection = record
      raw = connection.raw_connection
      tapped = Module.new do
        define_method(:query) { |sql, *rest| sql == "COMMIT" ? raise("no COMMIT") : super(sql, *rest) }
      end
      raw.singleton_class.prepend(tapped)
      assert_raises(StandardError) { queue.take(connection) { Order.create!(n: 1) } }
      assert_includes ActiveRecord::Base.connection_pool.connections, connection
      assert_equal [0, 2], [count("orders"), taken(queue).tries]
    end

    test "a job is a part of the transaction of Active Record" do
      adapter = ActiveJob::QueueAdapters::RemoraAdapter.new
      adapter.create(:default)
      Ships.queue_adapter = adapter
      Ships.logger = nil
      ActiveRecord::Base.transaction do
        Ships.perform_later(1)
        raise ActiveRecord::Rollback
      end
      assert_equal 0, count("jobs_default")
      ActiveRecord::Base.transaction { Ships.perform_later(7) }
      Remora::Queue::ActiveJobWorkers.new(adapter, ["default"], log: Book.new).run(once: true)
      assert_equal [["7"], 0], [rows("SELECT n FROM orders"), count("jobs_default")]
      refute adapter.enqueue_after_transaction_commit?
    end

    test "what Active Record has no driver for is refused" do
      wrong = Struct.new(:configuration_hash).new({ adapter: "sqlite3" })
      record_class = Struct.new(:connection_db_config).new(wrong)
      assert_raises(Queue::WrongUse) { Queue.connect_as(record_class).call }
    end

    test "a program of Rails has the adapter by its name" do
      next unless Scene.library?("rails")

      Dir.mkdir("#{folder}/config")
      File.write("#{folder}/config/environment.rb", <<~RUBY)
        require "rails"
        require "active_record/railtie"
        require "active_job/railtie"
        require "mysql2"
        require "remora/queue"
        class App < Rails::Application
          config.root = "#{folder}"
          config.eager_load = false
          config.secret_key_base = "x" * 30
          config.logger = Logger.new(nil)
          config.active_job.queue_adapter = :remora
        end
        App.initialize!
        class Ships < ActiveJob::Base
          def perform(number)
            raise "no executor" unless Rails.application.executor.active?
            ActiveRecord::Base.connection.execute("INSERT INTO orders (n) VALUES (\#{number})")
          end
        end
      RUBY
      File.write("#{folder}/config/database.yml", <<~YAML)
        production: { adapter: mysql2, socket: "#{Driver::SOCKET}", username: root, database: #{database} }
      YAML
      queue = Queue.new("jobs_default", connect: connects, priority: true)
      queue.create(client)
      queue.put(client, { job_class: "Ships", job_id: "1", queue_name: "default", arguments: [7] })
      started = program(File.expand_path("../exe/remora-queue", __dir__), "--once", "-r", folder, "-e", "production")
      assert_equal 0, status_of(started).exitstatus
      assert_equal [["7"], 0], [rows("SELECT n FROM orders"), count("jobs_default")]
    end
  end
end
