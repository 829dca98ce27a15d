# frozen_string_literal: true

require_relative "support"

# The commands of the README that make a job for Active Job, in an application of the Rails that is here.
class FromNothingTest < Scene
  # What `rails new` makes of it.
  APPLICATION = {
    "Gemfile" => %w[railties activerecord activejob mysql2].map { |name| "gem \"#{name}\"\n" }.join,
    "app/jobs/application_job.rb" => "class ApplicationJob < ActiveJob::Base\nend\n",
    "bin/rails" => <<~RUBY,
      #!/usr/bin/env ruby
      APP_PATH = File.expand_path("../config/application", __dir__)
      require_relative "../config/application"
      require "rails/commands"
    RUBY
    "config/application.rb" => <<~RUBY,
      require "bundler/setup"
      require "rails"
      require "active_record/railtie"
      require "active_job/railtie"
      Bundler.require
      module Shop
        class Application < Rails::Application
          config.eager_load = false
          config.secret_key_base = "secret"
        end
      end
    RUBY
    "config/environment.rb" => "require_relative \"application\"\nRails.application.initialize!\n",
    "Rakefile" => "require_relative \"config/application\"\nRails.application.load_tasks\n"
  }.freeze

  def make_application
    APPLICATION.each do |path, text|
      FileUtils.mkdir_p(File.dirname("#{folder}/#{path}"))
      File.write("#{folder}/#{path}", text)
    end
    FileUtils.mkdir_p(%w[config/initializers db/migrate log].map { |path| "#{folder}/#{path}" })
    File.chmod(0o755, "#{folder}/bin/rails")
  end

  # What the commands print until a text comes. Then Ctrl-C, which must end them as if all was well.
  def told_until(text, commands)
    out, told = IO.pipe
    options = { chdir: folder, pgroup: true, %i[out err] => told, in: File::NULL }
    started = Process.spawn({ "BUNDLE_SILENCE_ROOT_WARNING" => "1" }, "bash", "-e", "-c", commands, **options)
    told.close
    # Rails starts three times, and a busy machine takes long for that.
    lines = Timeout.timeout(4 * PATIENCE) { out.each_line.take_while { |line| !line.include?(text) } }.join
    Process.kill("INT", -started)
    assert_equal 0, status_of(started).exitstatus, lines
    lines
  ensure
    # All that is left of them.
    begin
      Process.kill("KILL", -started)
    rescue Errno::ESRCH
      nil
    end
  end

  test "from nothing to a job of Active Job that is tried again" do
    next unless Driver::NAME == "mysql2" && %w[bundler rails active_record].all? { |name| Scene.library?(name) }

    commands = File.read("#{__dir__}/../README.md")[/The same through Active Job.*?```sh\n(.*?)```/m, 1]
    begins, commands = commands.split(/(?=^echo )/)
    assert_match(/\Agem install .*\nrails new shop .*\ncd shop\n\z/, begins)
    make_application
    commands = commands.sub("root@127.0.0.1:3307/shop", "root@localhost/#{database}?socket=#{Driver::SOCKET}")
                       .sub("PATH/clients/ruby", File.expand_path("..", __dir__))
    refute_match(/3307|PATH/, commands)
    assert_match(/^try 1 for ann@example.org$/, told_until("try 2 for ann@example.org", commands))
  end
end
