# frozen_string_literal: true

# What the contestants in Ruby share; contestant.py says what they do.

require "json"
require "mysql2"

LANES = 8
RATED = 1_000_000_000
PAD = "x" * 80

def now = Process.clock_gettime(Process::CLOCK_REALTIME, :microsecond)

def payload(id, put = now) = { "id" => id, "put" => put, "pad" => PAD }

def connect = Mysql2::Client.new(socket: ENV.fetch("BENCH_ADDRESS"), username: "root", database: "bench")

def record(job)
  $done ||= File.open(ENV.fetch("BENCH_DONE"), "a").tap { |file| file.sync = true }
  $done.write("#{job["id"]} #{job["put"]} #{now}\n")
end

def at_rate(queue, rate, count)
  clients = Array.new(LANES) { connect }
  clients.each_with_index { |client, number| queue.put(client, payload(number)) }
  start = now
  lanes = clients.map.with_index do |client, number|
    Thread.new do
      number.step(count - 1, LANES) do |job|
        at = start + job * 1_000_000 / rate
        sleep([0, at - now].max / 1e6)
        queue.put(client, payload(RATED + job, at))
      end
    end
  end
  lanes.each(&:join)
end

def main(queue)
  Thread.report_on_exception = true
  Thread.abort_on_exception = true
  what, *numbers = ARGV
  first, second = numbers.map(&:to_i)
  case what
  when "make" then queue.make(connect)
  when "put" then at_rate(queue, first, second)
  when "work" then queue.work(first)
  when "fill"
    client = connect
    (0...first).each_slice(1000) { |ids| queue.fill(client, ids.map { |id| payload(id) }) }
  end
end
