# frozen_string_literal: true

require "optparse"
# Not more of it yet: the package looks for Rails when it is loaded.
require "remora/queue/version"

module Remora
  class Queue
    # The program remora-queue: works on the jobs of Active Job.
    class CLI # :nodoc:
      # The command can't be carried out.
      class Refusal < StandardError; end

      def self.run(arguments)
        new(arguments).run
      rescue OptionParser::ParseError, Refusal => error
        abort "remora-queue: #{error.message}"
      end

      def initialize(arguments)
        @queues = ["default"]
        @load = "."
        @options = { threads: 5 }
        @once = false
        rest = parser.parse(arguments)
        raise Refusal, "what is #{rest.first}? See --help" if rest.any?
      end

      def run
        # What jobs write is seen at once, also by a service manager.
        $stdout.sync = true
        load_program
        require "remora/queue/active_job"
        adapter = ::ActiveJob::Base.queue_adapter
        unless adapter.is_a?(::ActiveJob::QueueAdapters::RemoraAdapter)
          raise Refusal, "Active Job has another adapter here: #{adapter.class}"
        end

        @options[:log] = ::ActiveJob::Base.logger if ::ActiveJob::Base.logger
        ActiveJobWorkers.new(adapter, @queues, **@options).run(once: @once)
      end

      private

      # The parser's own text would have a line for each option only.
      def parser
        OptionParser.new do |parser|
          parser.banner = "Usage: remora-queue [options]\n\n" \
                          "Works on jobs of Active Job until SIGTERM or SIGINT, and lets those that run end.\n\n"
          parser.version = VERSION
          parser.on("-q", "--queues NAME,NAME", Array, "queues of Active Job (default)") { |names| @queues = names }
          parser.on("-t", "--threads COUNT", Integer, "threads for each queue (5)") { |n| @options[:threads] = n }
          parser.on("-l", "--lease SECONDS", Float, "for how long a job is away when this is killed (30)") do |lease|
            @options[:lease] = lease
          end
          parser.on("-r", "--require PATH", "a folder with a Rails application, or a file of Ruby (.)") do |path|
            @load = path
          end
          parser.on("-e", "--environment NAME", "RAILS_ENV") { |name| ENV["RAILS_ENV"] = name }
          parser.on("--once", "end when nothing waits") { @once = true }
        end
      end

      def load_program
        path = File.expand_path(@load)
        return require(path) unless File.directory?(path)

        environment = "#{path}/config/environment.rb"
        raise Refusal, "there is no #{environment}; --require names the application" unless File.file?(environment)

        require environment
        ::Rails.application.eager_load!
      end
    end
  end
end
