# frozen_string_literal: true

# Runs clients/conformance/steps.tsv through the driver that REMORA_QUEUE_DRIVER names.
#
# The server is at the socket that REMORA_QUEUE_SOCKET names. With REMORA_QUEUE_RESTARTS=1 whoever started
# this restarts the server: it is asked with a line on standard output, "stop" or "kill", and answers with a
# line.

require "tmpdir"
require_relative "driver"
require_relative "gate"

DATABASE = "ruby_conformance"
STEPS = File.expand_path("../../conformance/steps.tsv", __dir__)
PATIENCE = 60

# A step gave something else.
class Failed < StandardError; end

# A call was cancelled.
class Cancelled < StandardError; end

def wait_until(what)
  deadline = Time.now + PATIENCE
  until yield
    raise Failed, "not in time: #{what}" if Time.now > deadline

    sleep 0.02
  end
end

# What the steps before have left.
class Steps
  def initialize(folder)
    @folder = folder
    @connections = {}
    @tokens = {}
  end

  # Runs a line. False if nobody can restart the server for it.
  def step(name, step, expected, *more)
    verb, sql = step.match(/\A(@\w+)? ?(.*)\z/m).captures
    return restart(verb[1..]) if ["@stop", "@kill"].include?(verb)

    sql = text(sql)
    # What a regular expression says of a token is no token.
    wanted = expected.start_with?("~") ? expected : text(expected)
    rows = more.grep(/\AA/).map { |one| text(one[1..]).split("|") }
    deadline = Time.now + PATIENCE
    until fits?(got = result(name, verb, sql, rows), wanted)
      if verb != "@until" || Time.now > deadline
        raise Failed, "#{name} #{step[0, 150]}\n  wanted #{wanted[0, 150]}\n  got    #{got[0, 150]}"
      end

      sleep 0.02
    end
    more.each { |one| check_more(name, one, got) }
    true
  end

  private

  def connection(name)
    @connections[name] ||= Driver.connect(DATABASE)
  end

  # A field with its tokens, its many letters and its letters by number.
  def text(field)
    field.gsub(/\$([a-z])/) { @tokens.fetch($1, $&) }
         .gsub(/\{(.)\*(\d+)\}/) { $1 * $2.to_i }
         .gsub(/\{u\+([0-9a-f]+)\}/) { [$1.hex].pack("U") }
  end

  def restart(how)
    return false unless ENV["REMORA_QUEUE_RESTARTS"] == "1"

    $stdout.puts(how)
    $stdout.flush
    raise Failed, "no answer to #{how}" unless $stdin.gets

    @connections.clear
    true
  end

  def check_more(name, one, got)
    if one.start_with?("W")
      numbers = Driver.rows(connection(name), "SHOW WARNINGS").map { |row| row[1] }
      raise Failed, "wanted warning #{one}, got #{numbers}" unless numbers.include?(one[1..].to_i)
    elsif one.start_with?("$")
      @tokens.merge!(one.delete("$").split(",").zip(got.scan(/"token":"([^"]+)"/).flatten).to_h)
    end
  end

  # What a step gives, as text, also an error.
  def result(name, verb, sql, rows)
    perform(name, verb, sql, rows)
  rescue Driver::ERROR => error
    begin
      Driver.rows(connection(name), "SELECT 1")
    rescue Driver::ERROR
      # After an error of the connection itself there is none.
      @connections.delete(name)
    end
    "!#{Driver.number(error) || 0}"
  end

  def perform(name, verb, sql, rows)
    case verb
    when "@type" then @last.encoding == Encoding::UTF_8 ? "text" : "bytes"
    when "@killwait" then kill_wait(name, sql)
    when "@closewait" then close_wait(sql)
    when "@closeunread" then close_unread(sql)
    # No driver for Ruby has a call that resets a connection.
    when "@close", "@reset" then close(name)
    when "@begin" then run(name, "BEGIN")
    when "@commit" then run(name, "COMMIT")
    when "@rollback" then run(name, "ROLLBACK")
    when "@many" then many(name, sql, rows)
    else rows.empty? ? run(name, sql) : prepared(name, sql, rows.first)
    end
  end

  def run(name, sql)
    shown(connection(name), Driver.rows(connection(name), sql))
  end

  def shown(client, rows)
    return client.affected_rows.to_s if rows.nil?

    @last = rows.first&.first
    rows.map { |row| row.map { |value| value.nil? ? "NULL" : value.to_s }.join("|") }.join("\n")
  end

  # trilogy prepares nothing in the server.
  def prepared(name, sql, values)
    client = connection(name)
    return run(name, sql.gsub("?") { "'#{client.escape(values.shift)}'" }) if Driver::NAME == "trilogy"

    statement = client.prepare(sql)
    found = statement.execute(*values, as: :array)&.to_a
    found.nil? ? statement.affected_rows.to_s : shown(client, found)
  end

  # No driver for Ruby has a call for many rows: the statement has them all.
  def many(name, sql, rows)
    places = rows.map { |row| "(#{(["?"] * row.size).join(",")})" }.join(",")
    prepared(name, sql.sub(/\(%s.*\)/, places), rows.flatten)
  end

  def id_of(client)
    Driver.rows(client, "SELECT CONNECTION_ID()").first.first
  end

  def until_waiting(id)
    own = Driver.connect(DATABASE)
    wait_until("it waits") do
      Driver.rows(own, "SELECT state LIKE 'Waiting in queue%' FROM information_schema.processlist " \
                       "WHERE id = #{id}") == [[1]]
    end
    own
  end

  def until_gone(id)
    own = Driver.connect(DATABASE)
    wait_until("its connection ends") do
      Driver.rows(own, "SELECT id FROM information_schema.processlist WHERE id = #{id}").empty?
    end
    ""
  end

  def kill_wait(name, sql)
    id = id_of(connection(name))
    killer = Thread.new { until_waiting(id).query("KILL QUERY #{id}") }
    run(name, sql)
  ensure
    killer&.join
  end

  # The call is cancelled by an exception. After Thread#kill mysql2 would go on waiting.
  def close_wait(sql)
    client = Driver.connect(DATABASE)
    id = id_of(client)
    calls = Thread.new { client.query(sql) }
    calls.report_on_exception = false
    until_waiting(id)
    calls.raise(Cancelled)
    assert_interrupted(calls)
    client.discard! if Driver::NAME == "trilogy"
    until_gone(id)
  end

  def assert_interrupted(calls)
    calls.join
    raise Failed, "the call was not cancelled"
  rescue Cancelled
    # As it was to be.
  end

  def close_unread(sql)
    gate = Gate.new("#{@folder}/gate")
    client = Driver.connect(DATABASE, socket: gate.path)
    id = id_of(client)
    gate.arm
    begin
      client.query(sql)
    rescue Driver::ERROR
      # It was cut off.
    end
    until_gone(id)
  ensure
    gate.end
    File.unlink(gate.path)
  end

  def close(name)
    id = id_of(connection(name))
    @connections.delete(name).close
    until_gone(id)
  end

  def fits?(got, wanted)
    case wanted
    when "ok" then !got.start_with?("!")
    when "!" then got.start_with?("!")
    # Ruby warns of a bracket that is not escaped in brackets.
    when /\A~/ then got.match?(Regexp.new(wanted[1..].gsub("[^]]", "[^\\]]"), Regexp::MULTILINE))
    else got == wanted
    end
  end
end

server = Driver.connect
server.query("DROP DATABASE IF EXISTS #{DATABASE}")
server.query("CREATE DATABASE #{DATABASE} CHARACTER SET utf8mb4")
done = 0
Dir.mktmpdir do |folder|
  steps = Steps.new(folder)
  File.readlines(STEPS, chomp: true, encoding: "UTF-8").each.with_index(1) do |line, at|
    next if line.empty? || line.start_with?("#")

    unless steps.step(*line.split("\t", -1))
      warn "left out from line #{at} on: nobody restarts the server"
      break
    end
    done += 1
  rescue Failed => error
    abort "steps.tsv:#{at}: #{error.message}"
  end
end
warn "#{Driver::NAME}: #{done} steps"
