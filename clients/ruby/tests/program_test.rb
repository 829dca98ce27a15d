# frozen_string_literal: true

require_relative "support"

# Workers in processes of their own, which are stopped and killed.
class ProgramTest < Scene
  # A queue for workers that are killed.
  def killable
    queue = Queue.new("jobs", connect: connects, tries: 50, backoff: [0, 1, 0])
    queue.create(client)
    sql("CREATE TABLE done (n INT) ENGINE=InnoDB")
    queue
  end

  def work(*arguments)
    program("#{__dir__}/work.rb", database, "jobs", *arguments)
  end

  # A program of this text. Its handler has begun when the table `begun` has rows.
  def handles(text)
    sql("CREATE TABLE IF NOT EXISTS begun (n INT) ENGINE=InnoDB")
    sql("CREATE TABLE IF NOT EXISTS allowed (n INT) ENGINE=InnoDB")
    File.write("#{folder}/handles.rb", <<~RUBY)
      require "#{__dir__}/driver"
      connect = -> { Driver.connect("#{database}") }
      client = connect.call
      worker = Remora::Queue.new("jobs", connect: connect).worker(wait: 600) do |job|
        client.query("INSERT INTO begun VALUES (1)")
        #{text}
      end
      worker.run
      exit(7)
    RUBY
    program("#{folder}/handles.rb")
  end

  test "signals stop a worker that waits" do
    queue = killable
    %w[TERM INT].each do |signal|
      started = work("plain")
      until_waiting(1)
      Process.kill(signal, started)
      # It would wait for ten minutes. Nothing is taken any more.
      assert_equal [0, 0], [status_of(started).exitstatus, waiting.size]
      put(queue, 1)
      assert_equal 1, taken(queue).tries
    end
  end

  test "a signal lets a job end and a second one does not" do
    queue = killable
    %w[one two].each do |signals|
      put(queue, 1)
      started = handles(<<~RUBY)
        # Until it is heard, a signal is handled by the worker.
        sleep 0.01 while trap("USR1") { nil } && !worker.instance_variable_get(:@stopping)
        client.query("INSERT INTO begun VALUES (2)")
        sleep 0.01 until Driver.rows(client, "SELECT n FROM allowed").any?
      RUBY
      wait_until("it has begun") { count("begun") == 1 }
      Process.kill("TERM", started)
      wait_until("it is heard") { count("begun") == 2 }
      signals == "one" ? sql("INSERT INTO allowed VALUES (1)") : Process.kill("TERM", started)
      status = status_of(started)
      if signals == "one"
        assert_equal [7, 0], [status.exitstatus, count("jobs")]
      else
        assert_equal [15, 1], [status.termsig, count("jobs")]
      end
      %w[begun allowed].each { |table| sql("DELETE FROM #{table}") }
    end
  end

  # Does 100 jobs with workers that are killed again and again.
  def kill_at_random(kind)
    queue = killable
    put(queue, *0..99)
    random = Random.new(7)
    while count("jobs").positive?
      started = work(kind, "0.5")
      enough = count("done") + random.rand(5..40)
      wait_until("the worker does something") { count("done") >= enough || count("jobs").zero? }
      kill(started)
    end
    assert_equal [0, "100"], [count("jobs_dead"), value("SELECT COUNT(DISTINCT n) FROM done")]
  end

  test "no job is lost when workers are killed" do
    kill_at_random("plain")
  end

  test "jobs in transactions are done once when workers are killed" do
    kill_at_random("transaction")
    assert_equal 100, count("done")
  end
end
