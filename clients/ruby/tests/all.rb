# frozen_string_literal: true

# Runs the tests, or those with a text in their names: all.rb -n /TEXT/

require_relative "support"

# What workers and `take` log is in the way.
$stderr = File.open(File::NULL, "w")
Dir["#{__dir__}/*_test.rb"].sort.each { |file| require file }
exit(Minitest.run(ARGV))
