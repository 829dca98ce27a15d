history
