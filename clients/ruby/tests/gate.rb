# frozen_string_literal: true

require "socket"

# A way to the server, beside the test, that can be shut, or silent: then nothing arrives, and nothing is
# closed.
class Gate
  attr_reader :path

  def initialize(path)
    @path = path
    @listens = UNIXServer.new(path)
    @pairs = []
    @is_silent = @is_shut = false
    @mutex = Mutex.new
    @accepts = Thread.new { accept }
  end

  def accept
    loop do
      from = @listens.accept
      next from.close if @is_shut

      to = UNIXSocket.new(Driver::SOCKET)
      @mutex.synchronize { @pairs << [from, to] }
      Thread.new { pump(from, to) { nil } }
      Thread.new { pump(to, from) { cut if @is_armed } }
    end
  end

  def pump(from, to)
    loop do
      data = from.readpartial(65_536)
      yield
      sleep 0.01 while @is_silent
      to.write(data)
    end
  rescue IOError, SystemCallError
    [from, to].each(&:close)
  end

  # Closes both ends of all connections, with what is on its way.
  def cut
    @mutex.synchronize do
      @pairs.flatten.each(&:close)
      @pairs.clear
    end
  end

  # From now on the first answer closes everything.
  def arm
    @is_armed = true
  end

  def shut
    @is_shut = true
    cut
  end

  def open
    @is_shut = @is_silent = false
  end

  def silence
    @is_silent = true
  end

  def end
    @accepts.kill.join
    @listens.close
    open
    cut
  end
end
