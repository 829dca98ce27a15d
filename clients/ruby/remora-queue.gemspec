# frozen_string_literal: true

require_relative "lib/remora/queue/version"

Gem::Specification.new do |spec|
  spec.name = "remora-queue"
  spec.version = Remora::Queue::VERSION
  spec.summary = "Jobs in a queue that is a table of MariaDB (ENGINE=QUEUE of remora)"
  spec.description = "Put, leases, retries, transactions, and an adapter of Active Job. " \
                     "The driver is mysql2 or trilogy, which you add yourself."
  spec.authors = ["remora"]
  spec.license = "GPL-2.0-or-later"
  spec.required_ruby_version = ">= 3.1"
  spec.files = Dir.chdir(__dir__) { Dir["README.md", "lib/**/*.rb", "exe/*"] }
  spec.bindir = "exe"
  spec.executables = ["remora-queue"]
  spec.metadata = { "rubygems_mfa_required" => "true" }
end
