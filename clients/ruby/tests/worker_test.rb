# frozen_string_literal: true

require_relative "support"

class WorkerTest < Scene
  def run_once(queue, **options, &handler)
    queue.worker(log: Book.new, **options, &handler).run(once: true)
  end

  test "jobs are done or tried again or dead" do
    queue = queue("some")
    ids = put(queue, "good", "twice", "never", "later")
    told = Book.new
    tried = []
    queue.worker(log: told) do |job|
      tried << "#{job.payload} #{job.tries}"
      raise "no such h\u{f6}st" if job.payload == "never" || (job.payload == "twice" && job.tries == 1)
      raise Queue::Retry.new("not yet", delay: 3600) if job.payload == "later"

      job.tries > 1 ? assert_equal("no such h\\u00f6st", job.why) : assert_nil(job.why)
      assert_includes ids, job.id
    end.run(once: true)
    assert_equal ["good 1", "later 1", "never 1", "never 2", "never 3", "twice 1", "twice 2"], tried.sort
    assert_equal 4, told.lines.size
    assert_equal ["#{ids[2]}|\"never\"|3|no such h\\u00f6st"], rows("SELECT id, payload, failed, why FROM some_dead")
    assert_equal ["1"], failed_tries("some")
  end

  test "whatever a handler does is a failed try" do
    queue = queue("odd", "type", "long", "empty", "bytes", "retry", "exit", "throw", "thread")
    told = Book.new
    queue.worker(log: told, threads: 2) do |job|
      case job.payload
      when "type" then nil.nothing
      when "long" then raise "\u{e9}" * 500
      when "empty" then raise IOError, ""
      when "bytes" then raise "\xff'\\"
      when "retry" then raise Queue::Retry.new("again", delay: -1)
      when "exit" then exit
      when "throw" then throw :nothing
      when "thread" then Thread.exit
      end
    end.run(once: true)
    dead = rows("SELECT payload, LEFT(why, 17), LENGTH(why) = 1000, failed FROM odd_dead ORDER BY payload")
    assert_equal ["\"bytes\"|\\ufffd'\\|0|3", '"empty"|IOError|0|3', '"exit"|exit|0|3', '"long"|\u00e9\u00e9\u00e9|1|3'
                    .sub('\u00e9\u00e9\u00e9', '\u00e9\u00e9\u00e9'[0, 17]), '"retry"|again|0|3',
                  '"thread"|the handler has e|0|3', '"throw"|uncaught throw :n|0|3',
                  '"type"|undefined method |0|3'], dead
    assert told.include?("worker_test.rb")
    refute told.include?("again")
  end

  test "a batch ends without those that failed and with few statements" do
    acks = Thread::Queue.new
    ends = through("queue_ack") do |run|
      acks << true
      run.call
    end
    queue = queue("batch", *0..24, connect: ends)
    sizes = []
    run_once(queue, batch: 10) do |jobs|
      sizes << jobs.size
      jobs.each { |job| job.fail("not this one", delay: 3600) if [7, 23].include?(job.payload) }
      raise "the last ones" if jobs.first.payload >= 20
    end
    assert_equal [10, 10, 5], sizes.first(3)
    # Those of the last batch are tried three times, then they are dead. 23 has said when it comes again.
    assert_equal [2, 4], [count("batch"), count("batch_dead")]
    # Also of two batches, if they end at the same time.
    assert_operator acks.size, :<=, 2
  end

  test "threads work at the same time and not more of them" do
    queue = queue("many", *1..6)
    going = Thread::Queue.new
    allowed = Thread::Queue.new
    worker = queue.worker(threads: 3, log: Book.new) do
      going << true
      allowed.pop
    end
    runs = beside { worker.run(once: true) }
    wait_until("three run") { going.size == 3 }
    # Nothing more is leased than what runs.
    assert_equal 3, failed_tries("many").size
    3.times { allowed << true }
    wait_until("six have begun") { going.size == 6 }
    allowed.close
    value_of(runs)
    assert_equal 0, count("many")
  end

  test "a transaction ends the message or changes nothing" do
    failing = false
    connect = through("COMMIT") do |run|
      if failing
        failing = false
        raise "no COMMIT"
      end
      run.call
    end
    queue = queue("exact", *1..6, connect: connect)
    sql("CREATE TABLE exactly (n INT PRIMARY KEY) ENGINE=InnoDB")
    sql("INSERT INTO exactly VALUES (3)")
    whys = []
    run_once(queue, transaction: true) do |job, connection|
      whys << "#{job.payload} #{job.why}" if job.tries > 1 && job.payload != 3
      connection.query("INSERT INTO exactly VALUES (#{job.payload})")
      raise "after its work" if job.payload == 2 && job.tries == 1

      job.fail("not now") if job.payload == 4 && job.tries < 3
      failing = job.payload == 5 && job.tries == 1
      exit if job.payload == 6 && job.tries == 1
    end
    assert_equal %w[1 2 3 4 5 6], rows("SELECT n FROM exactly ORDER BY n")
    assert_equal ["2 after its work", "4 not now", "4 not now", "5 no COMMIT", "6 exit"], whys.sort
    # A transaction that fails each time does not come for ever.
    assert_equal [["3|3"], 0], [rows("SELECT payload, failed FROM exact_dead"), count("exact")]
  end

  test "a deadlock that a handler ignores does not end its message" do
    queue = queue("ignored", 1)
    make_lockable
    sql("CREATE TABLE done (n INT) ENGINE=InnoDB")
    tries = 0
    run_once(queue, transaction: true) do |_, connection|
      deadlock(connection) if (tries += 1) == 1
      connection.query("INSERT INTO done VALUES (1)")
    end
    assert_equal [2, 0, 1], [tries, count("ignored"), count("done")]
  end

  test "a worker with transactions commits nothing when its lease is lost" do
    queue = queue("stolen", 1, connect: through("queue_extend") { raise "not now" })
    sql("CREATE TABLE done (n INT) ENGINE=InnoDB")
    worker = queue.worker(transaction: true, lease: 0.2, log: Book.new) do |_, connection|
      connection.query("INSERT INTO done VALUES (1)")
      worker.stop
      steal("stolen")
    end
    worker.run
    assert_equal [0, 0, ["1"]], [count("done"), count("stolen_dead"), failed_tries("stolen")]
  end

  test "a job that takes longer than its lease is given to nobody else" do
    queue = queue("longer", 1)
    seen = 0
    run_once(queue, lease: 1) do
      seen += 1
      other = beside { taken(queue, wait: 600) }
      until_waiting(1)
      # Longer than two leases. The other one would get it if it were not extended.
      until_extended("longer", 1)
      assert other.alive?
      end_connection(waiting.first)
    end
    assert_equal [1, 0], [seen, count("longer")]
  end

  test "a message whose lease has ended is not run again by its worker" do
    queue = queue("again", 1, connect: through("queue_extend") { raise "not now" })
    told = Book.new
    ran = 0
    # The second thread is given it again.
    worker = queue.worker(threads: 2, lease: 0.3, wait: 600, log: told) do |job|
      ran += 1
      first = job.token
      wait_until("it is leased again") { job.token != first }
      assert_equal 2, job.tries
      refute job.lost?
      worker.stop
    end
    worker.run
    assert_equal [1, 0, 0], [ran, count("again"), count("again_dead")]
    assert told.include?("leases could not be extended")
  end

  test "a message that comes again continues to be extended" do
    failing = true
    queue = queue("kept", 1, connect: through("queue_extend") { |run| failing ? raise("not now") : run.call })
    worker = queue.worker(threads: 2, lease: 0.6, wait: 600, log: Book.new) do |job|
      first = job.token
      wait_until("it is leased again") { job.token != first }
      failing = false
      until_extended("kept", 0.6)
      worker.stop
    end
    worker.run
    assert_equal [0, 0], [count("kept"), count("kept_dead")]
  end

  test "a job can see that somebody else has its message" do
    stolen = Thread::Queue.new
    queue = queue("lost", 1, connect: through("queue_extend") do |run|
      stolen.pop
      run.call
    end)
    told = Book.new
    worker = queue.worker(lease: 0.3, log: told) do |job|
      refute job.lost?
      steal("lost")
      stolen << true
      wait_until("it is told") { job.lost? }
      worker.stop
    end
    worker.run
    assert told.include?("has ended while its job runs") && told.include?("came too late")
    # It was given once more: the lease that ended is a failed try, and the late end is none.
    assert_equal ["1"], failed_tries("lost")
  end

  test "an end is told again when its connection breaks" do
    %w[queue_ack queue_nack].each do |function|
      said = Thread::Queue.new
      connect = through("SELECT #{function}") do |run|
        said << true
        # The first one is not heard, and of the second one the answer is lost.
        raise "gone away" if said.size == 1

        run.call.tap { raise "gone away" if said.size == 2 }
      end
      queue = queue("told_#{function}", 1, connect: connect)
      ran = 0
      run_once(queue) do
        ran += 1
        raise Queue::Retry.new("later", delay: 3600) if function == "queue_nack"
      end
      assert_equal [1, 3], [ran, said.size]
      assert_equal function == "queue_nack" ? ["1"] : [], failed_tries("told_#{function}")
    end
  end

  # Connections that say when the second lease is answered.
  def telling(connect, back)
    asked = 0
    tapped = Module.new do
      define_method(:query) do |sql, *rest|
        super(sql, *rest).tap { back << true if sql.include?("queue_lease_json") && (asked += 1) == 2 }
      end
    end
    -> { connect.call.tap { |client| client.singleton_class.prepend(tapped) } }
  end

  test "a message that is back before its end is told is not run again" do
    back = Thread::Queue.new
    is_first = true
    queue = queue("late", 1, connect: through("SELECT queue_ack") do |run|
      # The lease has ended, and the other thread has the message.
      back.pop if is_first
      is_first = false
      run.call
    end)
    ran = 0
    worker = queue.worker(connect: telling(queue.connect, back), threads: 2, lease: 0.3, wait: 600, log: Book.new) do
      ran += 1
    end
    runs = beside { worker.run }
    wait_until("it has ended") { count("late").zero? }
    worker.stop
    value_of(runs)
    assert_equal [1, 0], [ran, count("late_dead")]
  end

  test "a message that is back before its failure is answered is a new try" do
    back = Thread::Queue.new
    queue = queue("early", 1, connect: through("SELECT queue_nack") do |run|
      # The other thread has it before this is answered.
      run.call.tap { back.pop }
    end)
    connect = telling(queue.connect, back)
    tries = []
    worker = queue.worker(connect: connect, threads: 2, wait: 600, log: Book.new) do |job|
      tries << job.tries
      raise "at once" if job.tries == 1

      worker.stop
    end
    worker.run
    assert_equal [[1, 2], 0], [tries, count("early")]
  end

  test "a worker does not end while a message may come back" do
    queue = queue("back", 1)
    ran = []
    run_once(queue) do |job|
      ran << job.tries
      raise Queue::Retry.new("at once", delay: 0) if job.tries < 3
    end
    assert_equal [1, 2, 3], ran
  end

  test "a worker does not end while a job may put something" do
    queue = queue("more", 1)
    ran = []
    run_once(queue, threads: 2) do |job|
      ran << job.payload
      next if job.payload > 2

      # The other thread has seen that nothing waits.
      sleep(0.2)
      put(queue, job.payload + 1)
    end
    assert_equal [1, 2, 3], ran
  end

  test "what will never work ends a worker" do
    queue = queue("wrong", 1)
    run = ->(of, **options) { of.worker(log: Book.new, **options) { nil }.run }
    assert_equal 51_001, Driver.number(assert_raises(Driver::ERROR) { run.call(queue, where: "nothing = 1") })
    assert_equal 1146, Driver.number(assert_raises(Driver::ERROR) { run.call(Queue.new("no", connect: connects)) })
    plain = Queue.new("plain", connect: connects, transactional: false)
    plain.create(client)
    plain.put(client, 1)
    shared = connect
    [-> { run.call(Queue.new("wrong")) }, -> { run.call(queue, batch: 0) }, -> { run.call(queue, lease: 0) },
     -> { run.call(queue, wait: -1) }, -> { run.call(queue, threads: 0) }, -> { queue.worker },
     -> { run.call(queue, batch: 2, transaction: true) }, -> { run.call(plain, transaction: true) },
     -> { run.call(queue, connect: -> { nil }) }, -> { run.call(queue, connect: -> { shared }) }]
      .each { |wrong| assert_raises(Queue::WrongUse) { wrong.call } }
    assert_raises(NameError) { run.call(queue, connect: -> { nothing }) }
    assert_raises(KeyError) { run.call(queue, connect: -> { {}.fetch(:url) }) }
    # No message was tried.
    assert_equal [1, 0.0], [taken(queue).tries, leased_until("plain")]
    put(queue, 1)
    told = Book.new
    again = queue.worker(log: told) do
      again.run
    rescue Queue::WrongUse
      again.stop
      raise
    end
    again.run
    assert told.include?("runs already")
  end

  test "a worker continues when its connections end" do
    [false, true].each do |transaction|
      name = transaction ? "broken_exact" : "broken"
      queue = queue(name)
      done = Thread::Queue.new
      worker = queue.worker(transaction: transaction, wait: 600, log: Book.new) do |job|
        done << "#{job.payload} #{job.tries}"
        worker.stop if done.size == 3
      end
      runs = beside { worker.run }
      3.times do |payload|
        until_waiting(1)
        before = others
        before.each { |id| end_connection(id) }
        wait_until("they end") { (before & others).empty? }
        until_waiting(1)
        put(queue, payload)
        wait_until("it is done") { done.size > payload }
      end
      value_of(runs)
      # With a transaction the thread's own connection has ended, which is a failed try.
      assert_equal ["0 1", "1 1", "2 1"], Array.new(3) { done.pop } unless transaction
    end
  end

  test "a wait that somebody has ended begins again" do
    asked = Thread::Queue.new
    queue = queue("interrupted", connect: through("queue_lease") do |run|
      asked << true
      run.call
    end)
    told = Book.new
    worker = queue.worker(wait: 600, log: told) { worker.stop }
    runs = beside { worker.run }
    until_waiting(1)
    before = waiting
    sql("KILL QUERY #{before.first}")
    # On the same connection.
    wait_until("it asks again") { asked.size == 2 }
    until_waiting(1)
    assert_equal before, waiting
    put(queue, 1)
    value_of(runs)
    assert_equal [], told.lines
  end

  test "a stop ends the wait and takes nothing" do
    queue = queue("stopped")
    worker = queue.worker(wait: 600, log: Book.new) { flunk "none was to come" }
    runs = beside { worker.run }
    until_waiting(1)
    worker.stop
    value_of(runs)
    assert_equal 0, waiting.size
    put(queue, 1)
    assert_equal 1, taken(queue).tries
    # One that was told before it runs does not begin.
    worker.stop
    value_of(beside { worker.run })
  end

  test "a stop that comes before the wait ends it too" do
    worker = nil
    numbers = []
    queue = queue("early", connect: through("queue_lease") do |run|
      worker.stop
      # A KILL QUERY that comes now does nothing.
      sleep(0.5)
      run.call
    rescue Driver::ERROR => error
      numbers << Driver.number(error)
      raise
    end)
    worker = queue.worker(wait: 600, log: Book.new) { flunk "none was to come" }
    value_of(beside { worker.run })
    # Otherwise the thread is ended after some seconds, and its connection with it.
    assert_equal [1317], numbers
  end

  test "an exception ends a worker at once and takes nothing" do
    queue = queue("aborted", 1)
    going = Thread::Queue.new
    runs = beside do
      queue.worker(threads: 2, wait: 600, log: Book.new) do
        going << true
        sleep
      end.run
    end
    going.pop
    until_waiting(1)
    runs.raise(Timeout::Error, "too long")
    assert_raises(Timeout::Error) { value_of(runs) }
    until_waiting(0)
    put(queue, 2)
    assert_equal [2, 1], [(job = taken(queue)).payload, job.tries]
    wait_until("its connections end") { others.empty? }
  end

  test "what is given to a worker that stops is returned and was not tried" do
    worker = nil
    queue = queue("stops", 1, connect: through("queue_lease") do |run|
      # The worker has not heard of the answer, and is to stop.
      run.call.tap { worker.stop }
    end)
    worker = queue.worker(wait: 600, log: Book.new) { flunk "it was to be returned" }
    worker.run
    assert_equal 1, taken(Queue.new("stops")).tries
  end

  test "nothing is told of a job that has ended" do
    # Longer than until the next extension would be.
    slow = through("COMMIT") do |run|
      sleep(0.3)
      run.call
    end
    { "plain" => connects, "exact" => slow }.each do |name, connect|
      queue = queue(name, 1, connect: connect)
      told = Book.new
      worker = queue.worker(lease: 0.6, wait: 0.15, transaction: name == "exact", log: told) do |job|
        job.payload == 2 ? worker.stop : queue.put(self.connect, 2, delay: 0.9)
      end
      worker.run
      assert_equal [[], 0], [told.lines, count(name)]
    end
  end

  test "the connections of a worker are as it needs them" do
    # Without autocommit, with another character set, and with a patience that is shorter than the wait.
    connect = lambda do
      self.connect(encoding: "latin1", read_timeout: 1).tap { |client| client.query("SET autocommit = 0") }
    end
    queue = queue("n\u{e9}", connect: connect)
    told = Book.new
    worker = queue.worker(where: "payload = #{Queue.literal('"\u00e9"')}", wait: 600, log: told) { worker.stop }
    runs = beside { worker.run }
    until_waiting(1)
    sleep(1.5)
    put(queue, "\u{e9}")
    value_of(runs)
    assert_equal [0, []], [count(queue.table), told.lines]
  end

  test "a process that a handler makes does not end the connections" do
    queue = queue("forks", 1, 2)
    told = Book.new
    run_once(queue, transaction: true) do |_, connection|
      Process.wait(fork { exit })
      connection.query("SELECT 1")
    end
    queue.worker(wait: 600, log: told) { |job| job }
    assert_equal [[], 0, 0], [told.lines, count("forks"), count("forks_dead")]
  end

  test "a worker runs again after a stop and leaves nothing" do
    [false, true].each do |transaction|
      queue = queue("twice")
      done = 0
      worker = queue.worker(transaction: transaction, log: Book.new) { done += 1 }
      threads = Thread.list.size
      2.times do |payload|
        put(queue, payload)
        worker.run(once: true)
      end
      assert_equal [2, threads], [done, Thread.list.size]
      wait_until("its connections end") { others.empty? }
    end
  end

  test "a log that fails ends nothing" do
    queue = queue("logs", 1)
    log = Object.new
    def log.warn(_)
      raise "no space left"
    end
    run_once(queue, log: log) { raise "each time" }
    assert_equal 1, count("logs_dead")
  end
end
