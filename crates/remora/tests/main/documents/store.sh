store
