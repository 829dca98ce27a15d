seq 1 20000 | awk 'BEGIN { print "id\tuser\tlat" } { print $1 "\t" "user" $1 % 50 "\t" $1 / 100 }' > nodes.tsv
seq 1 5000 > hot.tsv
remora pack --to lz4 -k hot.tsv
