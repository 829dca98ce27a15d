# frozen_string_literal: true

# What the tests share. Each has a database of its own on the server.

require "minitest"
require "rbconfig"
require "timeout"
require "tmpdir"
require_relative "driver"
require_relative "gate"

SIGNS = "\u{e9}\u{1f600}'\"\\';?:n%s\n\0"

# A log that keeps what it was told.
class Book
  attr_reader :lines

  def initialize
    @lines = []
  end

  def warn(line)
    @lines << line
  end

  def include?(text)
    @lines.any? { |line| line.include?(text) }
  end
end

# A test with a database of its own.
class Scene < Minitest::Test
  Queue = Remora::Queue
  PATIENCE = ENV.fetch("REMORA_QUEUE_PATIENCE", 60).to_f

  @numbers = 0

  class << self
    attr_reader :left_out

    # A number for each test.
    def next_number
      Scene.instance_variable_set(:@numbers, Scene.instance_variable_get(:@numbers) + 1)
    end

    def test(name, &block)
      define_method("test_#{name.gsub(/\W+/, "_")}", &block)
    end

    # Loads a library. False, and reported, if it is not there.
    def library?(name)
      require name
      true
    rescue LoadError => error
      puts "left out: #{error.message}"
      false
    end
  end

  attr_reader :database, :folder, :client

  def setup
    @database = "ruby_#{Process.pid}_#{Scene.next_number}"
    @folder = Dir.mktmpdir("remora-queue-")
    @programs = []
    @gates = []
    @asking_lock = Mutex.new
    @opened = Thread::Queue.new
    @client = kept(Driver.connect)
    sql("DROP DATABASE IF EXISTS #{database}")
    sql("CREATE DATABASE #{database} CHARACTER SET utf8mb4")
    sql("USE #{database}")
  end

  def teardown
    @programs.each { |program| kill(program) }
    @gates.each(&:end)
    # A transaction may be open there.
    [@asking, *Array.new(@opened.size) { @opened.pop }].compact.each { |one| Queue::Link.of(one).discard }
    sql("ROLLBACK")
    sql("SET STATEMENT lock_wait_timeout = 5 FOR DROP DATABASE #{database}")
    client.close
    FileUtils.remove_entry(folder)
  end

  def connect(**options)
    Driver.connect(database, **options).tap { |made| @opened << made }
  end

  # A process that a test makes does not end this connection.
  def kept(connection)
    connection.tap { connection.automatic_close = false if connection.respond_to?(:automatic_close=) }
  end

  def connects(**options)
    -> { connect(**options) }
  end

  # Connections on which statements with a word go through a block: it is given what runs them.
  def through(word, &by)
    lambda do
      tapped = Module.new do
        define_method(:query) do |sql, *rest|
          sql.include?(word) ? by.call(-> { super(sql, *rest) }) : super(sql, *rest)
        end
      end
      connect.tap { |client| client.singleton_class.prepend(tapped) }
    end
  end

  def gate
    Gate.new("#{folder}/gate#{@gates.size}").tap { |gate| @gates << gate }
  end

  # Waits until something is so.
  def wait_until(what)
    deadline = Time.now + PATIENCE
    until yield
      flunk "not in time: #{what}" if Time.now > deadline
      sleep 0.01
    end
  end

  # A thread that must end in time.
  def value_of(thread)
    wait_until("it ends") { !thread.alive? }
    thread.value
  end

  def beside(&block)
    Thread.new(&block).tap { |thread| thread.report_on_exception = false }
  end

  def program(*arguments, **options)
    libraries = $LOAD_PATH.map { |path| "-I#{path}" }
    Process.spawn(RbConfig.ruby, *libraries, *arguments, out: File::NULL, **options).tap { |id| @programs << id }
  end

  # How a program ends.
  def status_of(program)
    status = nil
    wait_until("it ends") { status = Process.wait2(program, Process::WNOHANG)&.last }
    @programs.delete(program)
    status
  end

  def kill(program)
    Process.kill("KILL", program)
    Process.wait(program)
    @programs.delete(program)
  end

  # Statements beside those of the package, also from several threads.

  def sql(statement)
    Driver.rows(client, statement)
  end

  # Each row, with a bar between its columns.
  def rows(statement)
    # One connection: those that have just ended would be seen among the others.
    found = @asking_lock.synchronize { Driver.rows(@asking ||= kept(Driver.connect(database)), statement) }
    found.map { |row| row.map { |value| value.nil? ? "NULL" : value.to_s }.join("|") }
  end

  def value(statement)
    rows(statement).first
  end

  def count(table)
    value("SELECT COUNT(*) FROM #{table}").to_i
  end

  # When the last lease of a table ends, in seconds; 0 when there is none.
  def leased_until(table)
    value("SELECT CAST(MAX(UNIX_TIMESTAMP(until)) AS DOUBLE) FROM information_schema.queue_owned " \
          "WHERE table_schema = '#{database}' AND table_name = '#{table}' AND connection_id = 0").to_f
  end

  def until_extended(table, by)
    first = leased_until(table)
    wait_until("it is extended") { leased_until(table) > first + by }
  end

  # How many tries each owned row of a table has failed.
  def failed_tries(table)
    rows("SELECT failed FROM information_schema.queue_owned " \
         "WHERE table_schema = '#{database}' AND table_name = '#{table}'")
  end

  # The connections that wait for a message.
  def waiting
    rows("SELECT id FROM information_schema.processlist WHERE db = '#{database}' AND state = 'Waiting in queue_lease'")
  end

  def until_waiting(count)
    wait_until("#{count} wait") { waiting.size == count }
  end

  # The connections to this database that are not the test's.
  def others
    rows("SELECT id FROM information_schema.processlist WHERE db = '#{database}' AND id != CONNECTION_ID()") - [mine]
  end

  def mine
    @mine ||= Driver.rows(client, "SELECT CONNECTION_ID()").first.first.to_s
  end

  # Ends a connection, if it is there.
  def end_connection(id)
    sql("KILL CONNECTION #{id}")
  rescue Driver::ERROR => error
    raise unless Driver.number(error) == 1094
  end

  # A queue that tries at once, three times, with messages.
  def queue(name, *payloads, connect: connects, **options)
    queue = Queue.new(name, connect: connect, tries: 3, backoff: [0, 1, 0], **options)
    queue.create(client)
    put(queue, *payloads)
    queue
  end

  def put(queue, *payloads)
    alone { |connection| queue.put_many(connection, payloads.map { |payload| Queue::Message.new(payload) }) }
  end

  # A connection for a short time: what is left open would be seen among the others.
  def alone
    connection = connect
    yield(connection)
  ensure
    connection&.close
  end

  # The job of the next message, which ends. nil if there is none.
  def taken(queue, connection = nil, **options)
    return alone { |own| taken(queue, own, **options) } unless connection

    found = nil
    came = queue.take(connection, **options) { |job| found = job }
    assert_equal came, !found.nil?
    found
  end

  # Takes a message away whose lease has ended.
  def steal(table)
    alone { |own| Driver.rows(own, "SELECT queue_lease_json(600, 1, '#{table}', 60)").first.first }
  end

  # Two rows, and a transaction by which the server ends another one that has changed less.
  def make_lockable
    sql("CREATE TABLE ballast ENGINE=InnoDB SELECT seq FROM seq_1_to_100")
    sql("CREATE TABLE locked (n INT PRIMARY KEY) ENGINE=InnoDB")
    sql("INSERT INTO locked VALUES (1), (2)")
  end

  # The number of the error that ends a connection's transaction.
  def deadlock(connection)
    ready = Thread::Queue.new
    first = Thread::Queue.new
    other = connect
    changes = beside do
      ["BEGIN", "UPDATE ballast SET seq = seq + 1", "UPDATE locked SET n = 12 WHERE n = 2"].each do |statement|
        other.query(statement)
      end
      ready << true
      first.pop
      other.query("UPDATE locked SET n = 11 WHERE n = 1")
      other.query("ROLLBACK")
    end
    ready.pop
    connection.query("UPDATE locked SET n = 21 WHERE n = 1")
    first << true
    wait_until("the other one waits") do
      value("SELECT variable_value FROM information_schema.global_status " \
            "WHERE variable_name = 'Innodb_row_lock_current_waits'") == "1"
    end
    error = assert_raises(Driver::ERROR) { connection.query("UPDATE locked SET n = 22 WHERE n = 2") }
    assert_equal 1213, Driver.number(error)
    value_of(changes)
  end
end
