module remoraqueue/tests

go 1.22

require (
	github.com/go-sql-driver/mysql v1.9.3
	remoraqueue v0.0.0
)

require filippo.io/edwards25519 v1.1.0 // indirect

replace remoraqueue => ../
