# frozen_string_literal: true

require "json"

module Remora
  class Queue
    # A payload and when and how it is to be given. See Queue#put.
    class Message
      attr_reader :payload, :delay, :at, :key, :dedupe, :priority

      def initialize(payload, delay: nil, at: nil, key: nil, dedupe: nil, priority: nil)
        @payload = payload
        @delay = delay
        @at = at
        @key = key
        @dedupe = dedupe
        @priority = priority
      end

      # The payload as JSON in ASCII.
      def json # :nodoc:
        JSON.generate(payload, ascii_only: true)
      rescue JSON::JSONError => error
        raise WrongUse, "a payload is what JSON can hold: #{error.message}"
      end

      # From when on it is given, as SQL. The server's clock decides.
      def due # :nodoc:
        raise WrongUse, "either `delay` or `at`" if delay && at
        return "'#{utc.strftime("%Y-%m-%d %H:%M:%S.%6N")}'" if at

        micros = (Queue.number(delay || 0, "a delay") * 1_000_000).round
        micros.zero? ? "NULL" : "NOW(6) + INTERVAL #{micros} MICROSECOND"
      end

      private

      def utc
        return (at.is_a?(Time) ? at : at.to_time).getutc if at.is_a?(Time) || at.respond_to?(:to_time)

        raise WrongUse, "#{at.inspect} is no time"
      end
    end
  end
end
