zstd -q hits.csv
mariadb -e 'CREATE DATABASE osm; CREATE TABLE osm.nodes (id INT PRIMARY KEY, lat DOUBLE, lon DOUBLE)'
seq 1 5000 | awk '{ print $1 "\t" $1 / 100 "\t" $1 / 200 }' > nodes.tsv
sshd
# What is written directly is not in a binary log.
remora sandbox stop db1
remora sandbox start db1 --option none
# Parquet files of somebody else.
mariadb -e 'CREATE DATABASE taxi'
remora dump --format parquet shop.order_lines -o lines
for file in lines/shop.order_lines/*.parquet; do mv "$file" "trips-${file##*/}"; done
# Folders that are named after values.
mkdir -p /lake/trips/day=2026-11-28/code=007
cp trips-00000.parquet /lake/trips/day=2026-11-28/code=007/00000.parquet
