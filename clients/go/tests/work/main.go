// A worker that tests stop and kill: work DATABASE QUEUE plain|transaction [SECONDS OF THE LEASE]
//
// Each job inserts its payload into the table `done` of InnoDB. It fails at its first try if the payload is a
// multiple of seven.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/go-sql-driver/mysql"

	"remoraqueue"
)

func note(ctx context.Context, on remoraqueue.Connection, job *remoraqueue.Job[int]) error {
	if job.Payload%7 == 0 && job.Tries() == 1 {
		return errors.New("a first try")
	}
	_, err := on.ExecContext(ctx, fmt.Sprintf("INSERT INTO done VALUES (%d)", job.Payload))
	return err
}

func run(database, name, kind string, lease time.Duration) error {
	_ = mysql.SetLogger(&mysql.NopLogger{})
	db, err := sql.Open("mysql", fmt.Sprintf("root@unix(%s)/%s", os.Getenv("REMORA_QUEUE_SOCKET"), database))
	if err != nil {
		return err
	}
	queue, err := remoraqueue.New[int](name, remoraqueue.Options{DB: db})
	if err != nil {
		return err
	}
	options := remoraqueue.WorkerOptions{
		Lease: lease, Wait: 10 * time.Minute, Concurrency: 3, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	worker := queue.Worker(func(ctx context.Context, job *remoraqueue.Job[int]) error {
		return note(ctx, db, job)
	}, options)
	if kind == "transaction" {
		worker = queue.TransactionWorker(func(ctx context.Context, job *remoraqueue.Job[int], tx *sql.Tx) error {
			return note(ctx, tx, job)
		}, options)
	}
	ctx, stop := remoraqueue.Signals(context.Background())
	defer stop()
	return worker.Run(ctx)
}

func main() {
	lease := 30 * time.Second
	if len(os.Args) > 4 {
		seconds, err := time.ParseDuration(os.Args[4] + "s")
		if err != nil {
			log.Fatal(err)
		}
		lease = seconds
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], lease); err != nil {
		log.Fatal(err)
	}
}
