# frozen_string_literal: true

module Remora
  class Queue
    # Makes `config.active_job.queue_adapter = :remora` known to Rails.
    class Railtie < ::Rails::Railtie # :nodoc:
      ActiveSupport.on_load(:active_job) { require "remora/queue/active_job" }
    end
  end
end
