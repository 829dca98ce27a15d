# frozen_string_literal: true

require_relative "support"

class TakeTest < Scene
  def prepared(connect = nil)
    sql("CREATE TABLE done (n INT PRIMARY KEY) ENGINE=InnoDB")
    queue = Queue.new("jobs", connect: connect, tries: 2, backoff: [0, 1, 0])
    queue.create(client)
    queue
  end

  test "a message and its work are one commit" do
    queue = prepared
    [1, 0].each do |autocommit|
      connection = connect
      connection.query("SET autocommit = #{autocommit}")
      sql("DELETE FROM done")
      put(queue, autocommit)
      error = assert_raises(RuntimeError) do
        queue.take(connection) do
          connection.query("INSERT INTO done VALUES (77)")
          raise "no such host"
        end
      end
      assert_equal ["no such host", 0], [error.message, count("done")]
      assert(queue.take(connection) do |job|
        assert_equal [autocommit, 2, "no such host"], [job.payload, job.tries, job.why]
        connection.query("INSERT INTO done VALUES (7)")
      end)
      assert_equal [["7"], 0], [rows("SELECT n FROM done"), count("jobs")]
      refute(queue.take(connection) { flunk "none was to come" })
      assert_equal [[0, autocommit]], Driver.rows(connection, "SELECT @@in_transaction, @@autocommit")
    end
  end

  test "a job that fails each time uses its tries up" do
    queue = prepared
    sql("INSERT INTO done VALUES (77)")
    put(queue, 1)
    2.times do
      connection = connect
      error = assert_raises(Driver::ERROR) do
        queue.take(connection) { connection.query("INSERT INTO done VALUES (77)") }
      end
      assert_equal 1062, Driver.number(error)
    end
    assert_nil taken(queue)
    assert_equal ["1|2"], rows("SELECT payload, failed FROM jobs_dead")
  end

  test "a retry says when and so does fail" do
    queue = prepared
    ways = [->(_) { raise Queue::Retry.new("later", delay: 3600) }, ->(job) { job.fail("later", delay: 3600) },
            ->(job) { job.fail(Queue::Retry.new("later", delay: 3600)) }]
    ways.each do |fails|
      put(queue, 1)
      retrying = assert_raises(Queue::Retry) { queue.take(client, &fails) }
      assert_equal ["later", 3600], [retrying.message, retrying.delay]
      assert_nil taken(queue)
    end
    assert_equal "3", value("SELECT due_later FROM information_schema.queues " \
                            "WHERE table_schema = '#{database}' AND table_name = 'jobs'")
  end

  test "a block that is left has failed" do
    queue = prepared
    put(queue, 1)
    connection = connect
    result = queue.take(connection) do
      connection.query("INSERT INTO done VALUES (1)")
      break :left
    end
    assert_equal [:left, 0], [result, count("done")]
    job = taken(queue, connection)
    assert_equal 2, job.tries
    assert_match(/left by break/, job.why)
  end

  test "work that a deadlock has rolled back does not end the message" do
    queue = prepared
    make_lockable
    [1, 0].each do |autocommit|
      connection = connect
      connection.query("SET autocommit = #{autocommit}")
      put(queue, autocommit)
      error = assert_raises(Queue::Error) do
        queue.take(connection) do
          deadlock(connection)
          # This begins another transaction, which must not be committed either.
          connection.query("INSERT INTO done VALUES (1)")
        end
      end
      assert_match(/the transaction of the job had ended/, error.message)
      assert_equal [0, [[autocommit]]], [count("done"), Driver.rows(connection, "SELECT @@autocommit")]
      job = taken(queue, connection)
      assert_equal [2, error.message], [job.tries, job.why]
    end
  end

  test "nothing is committed when the lease is lost" do
    queue = prepared
    put(queue, 1)
    connection = connect
    assert_raises(Queue::LeaseLost) do
      queue.take(connection, lease: 0.05) do
        connection.query("INSERT INTO done VALUES (5)")
        assert_includes steal("jobs"), '"try":2'
      end
    end
    assert_equal [0, 0, ["1"]], [count("done"), count("jobs_dead"), failed_tries("jobs")]
  end

  test "the work can see that the lease is lost" do
    stolen = Thread::Queue.new
    queue = prepared(through("queue_extend") do |run|
      stolen.pop
      run.call
    end)
    [true, false].each do |cares|
      put(queue, 1)
      lost = assert_raises(Queue::LeaseLost) do
        queue.take(client, lease: 0.3) do |job|
          refute job.lost?
          steal("jobs")
          stolen << true
          wait_until("it is told") { job.lost? }
          raise "what a pity" if cares
        end
      end
      cares ? assert_equal("what a pity", lost.cause.message) : assert_nil(lost.cause)
      assert_equal ["1"], failed_tries("jobs").uniq
    end
  end

  test "a lease is extended while the work continues" do
    queue = prepared(connects)
    put(queue, 1)
    assert(queue.take(client, lease: 1.5) { until_extended("jobs", 1.5) })
    # Its connection for that has ended.
    wait_until("it ends") { others.empty? }
  end

  test "it begins with a transaction of its own" do
    queue = prepared
    sql("BEGIN")
    assert_raises(Queue::InTransaction) { taken(queue, client) }
    sql("ROLLBACK")
    assert_nil taken(queue, client)
    assert_raises(Queue::WrongUse) { queue.take(client) }
  end

  test "a failure is told also when the connection is gone" do
    queue = prepared(connects)
    put(queue, 1)
    connection = connect
    id = Driver.rows(connection, "SELECT CONNECTION_ID()").first.first
    assert_raises(RuntimeError) do
      queue.take(connection) do
        sql("KILL #{id}")
        assert_raises(Driver::ERROR) { connection.query("INSERT INTO done VALUES (1)") }
        raise "what a pity"
      end
    end
    job = taken(queue)
    assert_equal [2, "what a pity"], [job.tries, job.why]
  end

  test "what could not be rolled back is not committed" do
    failing = false
    connection = through("ROLLBACK") do |run|
      failing ? raise("no ROLLBACK") : run.call
    end.call
    queue = prepared
    put(queue, 1)
    failing = true
    assert_raises(ArgumentError) do
      queue.take(connection) do
        connection.query("INSERT INTO done VALUES (1)")
        raise ArgumentError
      end
    end
    # The connection is closed: with autocommit it would commit what is open.
    assert_equal 0, count("done")
    assert_raises(Driver::ERROR) { connection.query("SELECT 1") }
  end

  test "a put ends the wait" do
    queue = prepared(connects)
    taking = beside { taken(queue, wait: 600).payload }
    until_waiting(1)
    put(queue, 5)
    assert_equal 5, value_of(taking)
  end

  test "an exception from another thread ends the wait and takes nothing" do
    [connects, nil].each_with_index do |connect_of_queue, number|
      queue = Queue.new("jobs#{number}", connect: connect_of_queue)
      queue.create(client)
      connection = connect
      taking = beside { queue.take(connection, wait: 600) { flunk "none was to come" } }
      until_waiting(1)
      taking.raise(Timeout::Error, "too long")
      assert_raises(Timeout::Error) { value_of(taking) }
      until_waiting(0)
      put(queue, 1)
      assert_equal 1, taken(queue).tries
      # With a second connection this one can be used on. Otherwise it is closed.
      if connect_of_queue then assert_equal [[1]], Driver.rows(connection, "SELECT 1")
      else assert_raises(Driver::ERROR) { connection.query("SELECT 1") }
      end
    end
  end

  test "a wait that ends in an error says so" do
    queue = prepared(connects)
    taking = beside { queue.take(connect, wait: 600) { nil } }
    until_waiting(1)
    sql("KILL QUERY #{waiting.first}")
    assert_equal 1317, Driver.number(assert_raises(Driver::ERROR) { value_of(taking) })
    error = assert_raises(Driver::ERROR) { taken(queue, where: "nothing = 1") }
    assert_equal 51_001, Driver.number(error)
  end

  test "what comes while the wait is being ended is returned" do
    asked = Thread::Queue.new
    # The answer is there, and the thread that waits for it hears of the exception before.
    connection = through("queue_lease_json") do |run|
      answer = run.call
      asked << true
      sleep(0.3)
      answer
    end.call
    queue = prepared(connects)
    put(queue, 1)
    taking = beside { queue.take(connection, wait: 600) { flunk "it was to be returned" } }
    asked.pop
    taking.raise(Timeout::Error, "too long")
    assert_raises(Timeout::Error) { value_of(taking) }
    assert_equal [1, 0.0], [taken(queue).tries, leased_until("jobs")]
  end

  test "a wait is shorter than the driver's patience" do
    queue = prepared(connects)
    assert_raises(Queue::WrongUse) { taken(queue, connect(read_timeout: 2), wait: 2) }
    assert_nil taken(queue, connect(read_timeout: 600), wait: 0.01)
  end
end
