# frozen_string_literal: true

require_relative "support"

# The examples of the README run as they stand. Only the server, the database and the driver are those of a
# test.
class ReadmeTest < Scene
  # An example, by a text in it.
  def example(text)
    found = File.read("#{__dir__}/../README.md").scan(/```ruby\n(.*?)```/m).flatten
    assert_equal 5, found.size
    code = found.find { |one| one.include?(text) }
    code.sub(/^connect = .*$/, "connect = -> { Driver.connect(\"#{database}\") }")
        .sub('require "mysql2"', "require \"#{__dir__}/driver\"").gsub("shop.", "#{database}.")
  end

  test "the first lines do what they say" do
    File.write("#{folder}/first.rb", example("worker.run # until"))
    started = program("#{folder}/first.rb", err: File::NULL)
    wait_until("the table is there") { rows("SHOW TABLES LIKE 'mails'").any? }
    wait_until("a try has failed") { failed_tries("mails") == ["1"] }
    # In ten seconds, and not at once.
    assert_operator leased_until("mails"), :>, Time.now.to_f + 5
    until_waiting(1)
    Process.kill("TERM", started)
    assert_equal 0, status_of(started).exitstatus
  end

  test "from nothing to a job that is tried again" do
    commands = File.read("#{__dir__}/../README.md")[/## From nothing.*?```sh\n(.*?)```/m, 1]
    begins, program = commands.split(/(?=cat >)/)
    begins.each_line { |line| assert_match(/\A(remora sandbox|gem install) /, line) }
    program = program.sub(/^connect = .*$/, "connect = -> { Driver.connect(\"#{database}\") }")
                     .sub('require "mysql2"', "require \"#{__dir__}/driver\"")
                     .sub("PATH/clients/ruby/lib", "#{__dir__}/../lib")
    refute_match(/3307|PATH/, program)
    told = Dir.chdir(folder) { IO.popen(["bash", "-e", "-c", program, { err: %i[child out] }], &:read) }
    assert_match(/try 1 after nil.*try 2 after "no such host"/m, told)
  end

  test "a message and an order and shelves and pages" do
    here = binding
    here.local_variable_set(:connect, connects)
    sql("CREATE TABLE bought (n INT) ENGINE=InnoDB")
    here.eval(example("shop.orders".dup))
    assert_equal [1, 1], [count("bought"), count("orders")]
    sql("CREATE TABLE stock (item INT, amount INT) ENGINE=InnoDB SELECT 7 item, 1 amount")
    sql("CREATE TABLE sizes (path VARCHAR(200) PRIMARY KEY, size INT)")
    here.local_variable_get(:orders).put(client, { order: 8 })
    File.write("#{folder}/page", "twelve")
    here.local_variable_set(:pages, queue("pages", { path: "#{folder}/page" }, { path: "/nowhere" }))
    wait_until("the order is due") { rows("SELECT id FROM orders").size == 2 }
    here.eval(example("shelves = "))
    assert_equal [["7|0"], ["1"]], [rows("SELECT item, amount FROM stock"), failed_tries("orders")]
    assert_equal [["6"], ["1"]], [rows("SELECT size FROM sizes"), failed_tries("pages")]
  end

  test "one job in a transaction" do
    here = binding
    sql("CREATE TABLE sent (mail TEXT) ENGINE=InnoDB")
    here.local_variable_set(:mails, queue("mails", { to: "ann@example.org" }))
    here.eval(example("came = "))
    assert_equal [true, ["ann@example.org"], 0],
                 [here.local_variable_get(:came), rows("SELECT mail FROM sent"), count("mails")]
  end

  test "models and a queue" do
    next unless Driver::NAME == "mysql2" && Scene.library?("active_record")

    sql("CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY, n INT) ENGINE=InnoDB")
    ActiveRecord::Base.establish_connection(adapter: "mysql2", socket: Driver::SOCKET, username: "root",
                                            database: database)
    here = binding
    here.eval("order_class = Class.new(ActiveRecord::Base) { self.table_name = 'orders' }")
    Object.const_set(:Order, here.local_variable_get(:order_class))
    here.eval(example("events = "))
    assert_equal [["8"], 0], [rows("SELECT n FROM orders"), count("events")]
  ensure
    Object.send(:remove_const, :Order) if Object.const_defined?(:Order)
    ActiveRecord::Base.remove_connection if defined?(ActiveRecord)
  end
end
