other
history
remora backup mysql: --to /backup --name data
size=$(stat -c %s /backup/data/000001.blk)
dd if=/dev/urandom of=/backup/data/000001.blk bs=1 seek=$((size / 3)) count=100 conv=notrunc
