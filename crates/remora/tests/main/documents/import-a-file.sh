zstd -qk hits.csv
gzip -k hits.csv && mv hits.csv.gz day.csv.gz
for part in 1 2; do printf 'id\tname\n%d\tbolt\n' $part > part-$part.tsv; done
printf 'name,age\nann,31\nbob,17x\ncid,44\n' > people.csv
mariadb shop -e 'CREATE TABLE people (name VARCHAR(20), age INT)'
