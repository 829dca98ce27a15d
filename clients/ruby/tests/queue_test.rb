# frozen_string_literal: true

require_relative "support"
require "bigdecimal"
require "date"

class QueueTest < Scene
  test "a message is there if its transaction is" do
    queue = Queue.new("jobs")
    queue.create(client)
    sql("BEGIN")
    queue.put(client, { n: 1 })
    sql("ROLLBACK")
    assert_equal 0, count("jobs")
    sql("BEGIN")
    id = queue.put(client, { n: SIGNS, f: 1.0 })
    assert_match(/\A[0-9a-f]{32}\z/, id)
    assert_equal 0, count("jobs")
    sql("COMMIT")
    assert value("SELECT payload FROM jobs").ascii_only?
    job = taken(queue)
    assert_equal [id, { "n" => SIGNS, "f" => 1.0 }, 1, nil], [job.id, job.payload, job.tries, job.why]
    assert job.fence.positive? && job.token.include?(":#{job.fence}-")
    assert_nil taken(queue)
  end

  test "a payload is what JSON can hold" do
    queue = queue("jobs")
    round = []
    round << round
    [Float::NAN, "\xff", "\xff".b, "\xd8".dup.force_encoding("UTF-16BE"), round].each do |wrong|
      assert_raises(Queue::WrongUse) { queue.put(client, wrong) }
    end
    [nil, [], true, "text", 2**70, "\u{e9}".encode(Encoding::ISO_8859_1)].each do |payload|
      queue.put(client, payload)
      assert_equal(*[payload, taken(queue).payload].map { |one| one.is_a?(String) ? one.encode("UTF-8") : [one] })
    end
  end

  test "no option of a connection changes a message" do
    queue = Queue.new("modes", fifo: true)
    queue.create(client)
    options = [{}, { encoding: "latin1" }]
    options += [{ as: :hash, symbolize_keys: true, cast_booleans: true }, { stream: true, cache_rows: false },
                { async: true }, { cast: false }]
    statements = ["SET autocommit = 0", "SET sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'", "SET NAMES latin1"]
    (options.product([nil]) + [[{}]].product(statements).map(&:flatten)).each do |set, statement|
      # Others than mysql2 have no such options.
      set = set.slice(:encoding) unless Driver::NAME == "mysql2"
      connection = connect(**set)
      connection.query(statement, async: false) if statement && Driver::NAME == "mysql2"
      connection.query(statement) if statement && Driver::NAME != "mysql2"
      queue.put(connection, SIGNS, key: SIGNS)
      Queue::Link.of(connection).run("COMMIT")
      job = taken(queue, connection, where: "payload != #{Queue.literal("\\")}")
      assert_equal [SIGNS, SIGNS, nil], [job.payload, job.row["message_key"], job.row["at"]]
    end
    return unless Driver::NAME == "trilogy"

    connection = connect
    connection.query_flags |= Trilogy::QUERY_FLAGS_FLATTEN_ROWS
    queue.put(connection, SIGNS)
    assert_equal SIGNS, taken(queue, connection).payload
    assert_nil taken(queue, connection)
  end

  test "many messages are put or none" do
    queue = queue("many", fifo: true)
    long = [Queue::Message.new(1), Queue::Message.new(2, key: "x" * 200)]
    assert_equal 1406, Driver.number(assert_raises(Driver::ERROR) { queue.put_many(client, long) })
    assert_equal 0, count("many")
    assert_equal [], queue.put_many(client, [])
  end

  test "a condition that the character set changes is refused" do
    queue = queue("charset", fifo: true)
    latin = connect(encoding: "latin1")
    where = "message_key = #{Queue.literal("\u{e9}")}"
    assert_raises(Queue::WrongUse) { taken(queue, latin, where: where) }
    queue.put(latin, 1, key: "\u{e9}")
    assert_equal 1, taken(queue, where: where).payload
  end

  test "a put that ROLLBACK would not undo is refused" do
    queue = Queue.new("plain", transactional: false)
    queue.create(client)
    sql("SET autocommit = 0")
    assert_raises(Queue::InTransaction) { queue.put(client, 1) }
    sql("COMMIT")
    sql("SET autocommit = 1")
    sql("BEGIN")
    assert_raises(Queue::InTransaction) { queue.put(client, 1) }
    assert_equal 0, count("plain")
    queue.put(client, 1, outside_transaction: true)
    sql("ROLLBACK")
    queue.put(client, 2)
    assert_equal 2, count("plain")
    assert_raises(Queue::WrongUse) { taken(queue) }
  end

  test "the table decides whether it is a part of transactions" do
    Queue.new("really_plain", transactional: false).create(client)
    sql("CREATE TABLE other (id INT) ENGINE=InnoDB")
    sql("BEGIN")
    { "really_plain" => Queue::InTransaction, "other" => Queue::NotAQueue, "none" => Queue::NotAQueue }
      .each { |name, error| assert_raises(error) { Queue.new(name).put(client, 1) } }
  end

  test "a connection is one of a driver that is known" do
    [nil, 1, Object.new].each { |wrong| assert_raises(Queue::WrongUse) { queue("jobs").put(wrong, 1) } }
  end

  test "a delay needs no care for time zones" do
    queue = queue("later")
    at = Time.now.localtime("+02:00") + 3600
    %w[-05:00 +00:00 +05:00].each do |zone|
      sql("SET time_zone = '#{zone}'")
      queue.put(client, "delay", delay: 3599.5)
      queue.put(client, "at", at: at)
      queue.put(client, "at", at: at.to_datetime)
    end
    within = "UNIX_TIMESTAMP(at) - UNIX_TIMESTAMP(NOW(6)) BETWEEN 3000 AND 3600"
    assert_equal "9", value("SET STATEMENT queue_show_owned = ON FOR SELECT COUNT(*) FROM later WHERE #{within}")
    [{ delay: 1, at: at }, { delay: -1 }, { delay: "soon" }, { delay: Float::INFINITY }, { at: 5 }].each do |wrong|
      assert_raises(Queue::WrongUse) { queue.put(client, 1, **wrong) }
    end
  end

  test "a short delay is exact" do
    queue = queue("soon")
    queue.put(client, "soon", delay: 0.25)
    assert_nil taken(queue)
    # The row knows when it was due, and it was not given before.
    job = taken(queue, wait: 60)
    assert_equal "1", value("SELECT UTC_TIMESTAMP(6) >= '#{job.row["at"]}'")
  end

  test "keys and duplicates and priorities" do
    queue = Queue.new("all_of_them", fifo: true, dedupe_for: 60, priority: true)
    queue.create(client)
    ids = queue.put_many(client, [
      Queue::Message.new(1, key: "a", priority: 5), Queue::Message.new(2, key: "a", priority: 1),
      Queue::Message.new(3, key: "b", priority: 4), Queue::Message.new(4, dedupe: "x", priority: 6),
      Queue::Message.new(5, dedupe: "x")
    ])
    assert_equal 5, ids.uniq.size
    queue.create(client)
    assert_equal [3, 1, 2, 4], Array.new(4) { taken(queue).payload }
    assert_nil taken(queue)
    bare = queue("bare")
    [{ key: "a" }, { dedupe: "a" }, { priority: 0 }].each do |wrong|
      assert_raises(Queue::WrongUse) { bare.put(client, 1, **wrong) }
    end
    # While the first one waits, another one is left out; then no longer.
    waits = Queue.new("waits", dedupe_for: 0)
    waits.create(client)
    2.times do
      2.times { |payload| waits.put(client, payload, dedupe: "x") }
      assert_equal 1, count("waits")
      taken(waits)
    end
  end

  test "names have almost any sign" do
    ["", "a.b.c", "`a", "a\\b", ".a", "a.\n."].each { |wrong| assert_raises(Queue::WrongUse) { Queue.new(wrong) } }
    sql("CREATE DATABASE IF NOT EXISTS `ruby.too \u{e9}`")
    name = "`ruby.too \u{e9}`.`a.b,c``d:e?'\"%s :x\u{e9}`"
    queue = Queue.new(name, connect: connects)
    assert_equal ["ruby.too \u{e9}", "a.b,c`d:e?'\"%s :x\u{e9}", name], [queue.database, queue.name, queue.table]
    queue.create(client)
    queue.put(client, "it's")
    assert_equal "it's", taken(queue, where: "payload = #{Queue.literal("\"it's\"")}").payload
    # Its tokens have a comma.
    done = []
    2.times { |payload| queue.put(client, payload) }
    queue.worker(batch: 2, connect: connects(encoding: "latin1")) { |jobs| done += jobs.map(&:payload) }
         .run(once: true)
    assert_equal [[0, 1], 0], [done, count(name)]
  ensure
    sql("DROP DATABASE IF EXISTS `ruby.too \u{e9}`")
  end

  test "a stale token is found among others" do
    token = "`a,b``c`.`d`:7-8c"
    assert_equal [token, "q:1-2"], Queue::Job.stale_among(["0", "#{token},q:1-2"])
    assert_equal [], Queue::Job.stale_among(["0", nil])
  end

  test "columns are text and NULL is nil" do
    sql("CREATE TABLE big (id BIGINT UNSIGNED, payload TEXT, data BLOB, none INT, d DECIMAL(30,10)) " \
        "ENGINE=QUEUE TRANSACTIONAL=1")
    sql("INSERT INTO big VALUES (18446744073709551615, 'no JSON', 'bytes', NULL, 12345678901234567890.1), " \
        "(1, NULL, '', 5, 0), (2, '[18446744073709551615]', '', 5, 0)")
    queue = Queue.new("big")
    job = taken(queue)
    assert_equal ["18446744073709551615", "no JSON", nil], [job.id, job.payload, job.row["none"]]
    assert_equal ["bytes", "12345678901234567890.1000000000"], [job.row["data"].unpack1("m"), job.row["d"]]
    job = taken(queue)
    assert_nil job.payload
    assert_equal "5", job.row["none"]
    assert_equal [18_446_744_073_709_551_615], taken(queue).payload
  end

  test "options are those of the table" do
    queue = Queue.new("everything", tries: 7, keep: 3600, backoff: [1.5, 1.5, 60])
    queue.create(client)
    table = value("SHOW CREATE TABLE #{queue.table}")
    ["`TRIES`='7'", "`BACKOFF`='1.5,1.5,60'", "`KEEP`='3600'", "`DEAD`='`everything_dead`'", "TRANSACTIONAL=1"]
      .each { |wanted| assert_includes table, wanted }
    assert_equal "everything_dead", queue.dead
    endless = Queue.new("endless", tries: 0)
    assert_equal 1, endless.ddl.size
    endless.create(client)
    [{ tries: -1 }, { keep: -1 }, { dedupe_for: -1 }, { backoff: [1, 2] }, { backoff: [-1, 2, 3] }, { tries: "x" }]
      .each { |wrong| assert_raises(Queue::WrongUse) { Queue.new("x", **wrong) } }
  end

  test "a lease is not lost when the message was leased again" do
    first, again = %w[q:1-2 q:2-3].map { |token| Queue::Job.new({ "row" => {}, "token" => token, "try" => 1 }) }
    assert first.comes_again(again)
    refute first.lose("q:1-2")
    refute first.lost?
    assert first.lose("q:2-3")
    assert first.lost?
    assert first.comes_again(again)
    refute first.lost?
  end

  test "a literal is what it was" do
    assert_equal ["7", "'it''s \\\\'"], [Queue.literal(7), Queue.literal("it's \\")]
  end
end
