store
remora key new full.key
remora key put full.key db1.put
