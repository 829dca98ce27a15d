other
history
