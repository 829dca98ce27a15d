# frozen_string_literal: true

require_relative "support"

class AwayTest < Scene
  test "a worker continues when the server was away" do
    way = gate
    queue = queue("away", 1, connect: connects(socket: way.path))
    going = Thread::Queue.new
    allowed = Thread::Queue.new
    told = Book.new
    worker = queue.worker(wait: 600, log: told) do |job|
      going << "#{job.payload} #{job.tries}"
      allowed.pop
      worker.stop if job.payload == 2
    end
    runs = beside { worker.run }
    assert_equal "1 1", going.pop
    way.shut
    allowed << true
    # The job has ended, and the server does not know yet.
    wait_until("it is told") { told.lines.count { |line| line.include?("ends of jobs") } >= 2 }
    assert_equal ["0"], failed_tries("away")
    way.open
    until_waiting(1)
    wait_until("its end is known") { count("away").zero? }
    way.shut
    # The server looks for clients that are gone only every few seconds.
    waiting.each { |id| end_connection(id) }
    wait_until("it is told") { told.lines.count { |line| line.include?("can't be asked") } >= 2 }
    put(queue, 2)
    way.open
    allowed << true
    value_of(runs)
    assert_equal "2 1", going.pop
  end

  test "a worker stops also when the server is away" do
    way = gate
    queue = queue("away", 1, connect: connects(socket: way.path))
    told = Book.new
    worker = queue.worker(lease: 0.5, log: told) do
      way.shut
      worker.stop
    end
    worker.run
    assert told.include?("it comes again when its lease has ended")
    # Its lease ends by itself.
    assert_equal 2, taken(Queue.new("away"), wait: 60).tries
  end

  test "an extension that is not answered does not hold up the next" do
    way = gate
    queue = queue("silent", 1, connect: connects(socket: way.path))
    told = Book.new
    queue.worker(lease: 6, log: told) do |job|
      until_extended("silent", 1)
      way.silence
      wait_until("it is seen") { told.include?("leases could not be extended") }
      refute job.lost?
      way.open
      until_extended("silent", 1)
    end.run(once: true)
    assert_equal 0, count("silent")
  end

  test "a worker stops also when nothing is answered" do
    way = gate
    queue = queue("silent", connect: connects(socket: way.path))
    worker = queue.worker(wait: 600, log: Book.new) { nil }
    runs = beside { worker.run }
    until_waiting(1)
    way.silence
    worker.stop
    value_of(runs)
    assert_empty(Thread.list.select { |thread| thread.name.to_s.start_with?("remora-queue") })
  end
end
