# frozen_string_literal: true

module Remora
  class Queue
    VERSION = "0.1.0"
  end
end
